// What the words of the legend and of the headings mean, from the glossary: under the pointer, on a tap, and in the help.

class Meanings {
  constructor(stage) {
    this.stage = stage;
    this.terms = {};
    this.list = el("dl", { class: "meanings" });
    stage.help.card.append(el("h3", { text: "What the colours mean" }), this.list);
    for (const [name, node] of this.places()) {
      stage.tip.on(node, () => this.told(name));
      node.addEventListener("click", (event) => this.tap(event, node));
    }
  }

  /** The name of a term, as Python sends it, and the element that shows it. */
  places() {
    const { root } = this.stage;
    const legend = LEGEND.map(([name]) => [name, root.querySelector(`.legend .key.${name}`).parentElement]);
    const headings = [...root.querySelectorAll(".panel")].map((panel) => [panel.classList[panel.classList.length - 1], panel.querySelector("h2")]);
    return [...legend, ["loaded", root.querySelector(".legend .key.loaded").parentElement], ...headings];
  }

  /** `terms` is name -> [title, definition]. */
  update(terms) {
    if (JSON.stringify(terms) === JSON.stringify(this.terms)) return;
    this.terms = terms;
    for (const [name, node] of this.places()) setAttr(node, "data-term", name in terms ? "" : null);
    const known = LEGEND.filter(([name]) => name in terms);
    this.list.replaceChildren(...known.flatMap(([name, label]) => [
      el("dt", {}, el("i", { class: `key ${name}` }), label),
      el("dd", {}, el("b", { text: `${terms[name][0]}. ` }), terms[name][1]),
    ]));
  }

  told(name) {
    const term = this.terms[name];
    return term ? { title: term[0], rows: [], text: term[1] } : null;
  }

  /** There is no pointer to rest on a word, so a tap shows what it means. */
  tap(event, node) {
    if (event.pointerType !== "touch") return;
    event.stopPropagation();
    this.stage.tip.show(node);
    document.addEventListener("pointerdown", () => this.stage.tip.hide(), { once: true, capture: true });
  }
}
