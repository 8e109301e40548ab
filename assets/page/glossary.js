// The list of all terms: searched as one types. Every piece of text enters by textContent.
const MARK = "__tickscopeGlossary";

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function folded(text) {
  return text.toLowerCase().replace(/[\s-]+/g, " ").trim();
}

class Glossary {
  constructor(parent) {
    this.input = node("input", { type: "search", "aria-label": "Search the glossary", placeholder: "Search: token, TTFT, evicted …", autocomplete: "off", spellcheck: "false", input: () => this.search() });
    this.count = node("p", { class: "count", role: "status" });
    this.ways = node("nav", { class: "ways", "aria-label": "Groups of terms" });
    this.none = node("div", { class: "none", hidden: "" }, (this.said = node("p")), node("button", { type: "button", click: () => this.clear() }, "Show all terms"));
    this.list = node("div", { class: "list" });
    this.root = node("div", { class: "glossary", "data-glossary": "" }, node("div", { class: "head" }, this.input, this.count), this.ways, this.none, this.list);
    parent.append(this.root);
  }

  update({ groups, wanted }, open) {
    this.open = open;
    const signature = JSON.stringify([groups, wanted]);
    if (this.signature === signature) return;
    this.signature = signature;
    this.entries = [];
    this.sections = groups.map((group) => this.section(group));
    this.list.replaceChildren(...this.sections.map(({ node: made }) => made));
    this.ways.replaceChildren(...this.sections.map((section) => this.way(section)));
    this.search();
    this.show(wanted);
  }

  section({ title, terms }) {
    const heading = node("h2", { tabindex: "-1" }, title);
    const entries = terms.map((term) => this.entry(term));
    this.entries.push(...entries);
    return { title, heading, entries, node: node("section", { "aria-label": title }, heading, node("dl", {}, ...entries.map((entry) => entry.node))) };
  }

  entry(term) {
    const name = node("dt", {});
    if (term.look) name.append(node("i", { class: `look ${term.look}`, "aria-hidden": "true" }));
    name.append(node("b", {}, term.name));
    if (term.full) name.append(node("span", {}, term.full));
    const links = node("dd", { class: "links" });
    if (term.see) links.append(node("a", { href: term.see, click: (event) => this.follow(event, term.see) }, `See it: ${term.place} ›`));
    if (term.source.length) links.append(node("a", { href: term.source[1], target: "_blank", rel: "noopener noreferrer" }, `Read on: ${term.source[0]} ↗`));
    const made = node("div", { class: "entry", "data-term": term.key }, name, node("dd", {}, term.text), ...(links.childNodes.length ? [links] : []));
    return { term, node: made, found: folded([term.name, term.full, ...term.forms, term.text].join(" ")) };
  }

  way(section) {
    const go = () => {
      section.node.scrollIntoView({ block: "start", behavior: isCalm() ? "auto" : "smooth" });
      section.heading.focus({ preventScroll: true });
    };
    return (section.way = node("button", { type: "button", click: go }, section.title));
  }

  /** A plain click stays in the visit; with a key held, the browser opens the link as it always does. */
  follow(event, see) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.open(see);
  }

  search() {
    const words = folded(this.input.value).split(" ").filter(Boolean);
    let shown = 0;
    for (const entry of this.entries) {
      entry.node.hidden = !words.every((word) => entry.found.includes(word));
      shown += entry.node.hidden ? 0 : 1;
    }
    for (const { node: made, entries, way } of this.sections) {
      made.hidden = entries.every((entry) => entry.node.hidden);
      way.disabled = made.hidden;
    }
    const all = this.entries.length;
    this.count.textContent = words.length ? `${shown} of ${all} terms` : `${all} terms`;
    this.none.hidden = shown > 0;
    this.said.textContent = `No term matches “${this.input.value.trim()}”. Try another word, or fewer letters.`;
  }

  clear() {
    this.input.value = "";
    this.search();
    this.input.focus();
  }

  /** The term that a link asked for. */
  show(key) {
    const entry = this.entries.find(({ term }) => term.key === key);
    if (!entry) return;
    entry.node.classList.add("wanted");
    requestAnimationFrame(() => entry.node.scrollIntoView({ block: "center" }));
  }
}

function isCalm() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const held = (parentElement[MARK] ??= { glossary: new Glossary(parentElement), turn: 0 });
  const turn = (held.turn += 1);
  held.glossary.update(data, (see) => floor.take(held.glossary.root, () => setTriggerValue("open", see)));
  return () => {
    if (held.turn !== turn) return;
    floor.leave(held.glossary.root);
    held.glossary.root.remove();
    delete parentElement[MARK];
  };
}
