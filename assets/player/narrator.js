// The sentences of the tick, and the way to the reasons behind them.

const TONES = {
  law: "pre", preempted: "pre", refused: "pre", fault: "pre", hit: "cach", loaded: "cach", restored: "comp", admitted: "comp", finished: "gen",
  decode: "gen", progress: "comp",
};

class Narrator {
  constructor(stage) {
    this.stage = stage;
    this.lead = el("strong");
    this.text = el("span");
    this.others = el("ul", { class: "others" });
    this.why = el("button", { class: "why", type: "button", text: "Why? ›", click: () => stage.act("why", this.subject) });
    this.live = el("p", { class: "hidden", "aria-live": "polite" });
    this.said = el("div", { class: "said" }, el("p", {}, this.lead, " ", this.text), this.others);
    this.node = el("div", { class: "narration", role: "group", "aria-label": "What happened in this tick" }, this.said, this.why, this.live);
  }

  draw(view) {
    const { lines, total } = view.narration;
    const [first, ...rest] = lines;
    setText(this.lead, first?.lead ?? (this.stage.options.computing ? "Computing the first tick." : "No tick yet. Run it, or choose another scenario."));
    setText(this.text, first?.text ?? "");
    setAttr(this.node, "data-tone", TONES[first?.kind] ?? "wait");
    this.subject = first?.request ?? -1;
    this.why.hidden = !this.stage.options.why || !first;
    this.drawOthers(rest, total);
  }

  drawOthers(rest, total) {
    const more = total - 1 - rest.length;
    const items = rest.map((line) => el("li", { "data-tone": TONES[line.kind] ?? "wait" }, el("b", { text: line.lead }), ` ${line.text}`));
    if (more > 0) items.push(el("li", { text: `and ${more} more` }));
    this.others.replaceChildren(...items);
    this.said.scrollTop = 0;
    const overflows = this.said.scrollHeight > this.said.clientHeight + 2;
    setAttr(this.node, "data-more", overflows ? "" : null);
    setAttr(this.said, "tabindex", overflows ? "0" : null);
  }

  /** Reads the tick aloud; only for single steps, never while playing. */
  announce(view) {
    setText(this.live, `Tick ${view.tick}. ${view.narration.lines.map((line) => `${line.lead} ${line.text}`).join(" ")}`);
  }

  say(text) {
    setText(this.live, text);
  }
}
