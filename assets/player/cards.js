// Those that wait and those that have ended, a card each.

class Cards {
  constructor(stage, name, title) {
    this.stage = stage;
    this.name = name;
    this.count = el("span", { class: "count" });
    this.list = el("ol", { class: "cards", tabindex: "0", "aria-label": title });
    this.empty = el("p", { class: "empty" });
    this.parts = new KeyedChildren(this.list, (request) => this.make(request));
    this.node = el("section", { class: `panel side ${name}` }, heading(title, this.count), this.list, this.empty);
  }

  make(request) {
    const part = { node: el("li", { class: "card" }) };
    part.name = el("button", { class: "name", type: "button", text: this.stage.run.requests[request].id });
    part.tag = el("span", { class: "tag" });
    part.line = el("span", { class: "line" });
    part.node.append(part.name, part.tag, part.line);
    part.node.addEventListener("click", () => this.stage.toggleSelection(request));
    this.stage.tip.on(part.node, () => requestFacts(this.stage.view, request));
    return part;
  }

  find(request) {
    return this.parts.parts.get(request)?.node ?? null;
  }

  reset() {
    this.parts.clear();
  }

  draw(view) {
    const { shown, total, nobody } = this.contents(view);
    setText(this.count, String(total));
    setText(this.empty, nobody);
    this.empty.hidden = total > 0;
    this.list.hidden = total === 0;
    this.isMany = total > 3;
    setAttr(this.list, "data-many", this.isMany ? "" : null);
    this.parts.show(shown, (part, request) => {
      const state = view.states.get(request);
      setAttr(part.node, "data-request", view.run.requests[request].id);
      setAttr(part.node, "data-news", newsOf(view, request) || null);
      setAttr(part.node, "data-spot", this.stage.spot(request));
      setAttr(part.name, "aria-pressed", String(this.stage.selected === request));
      this.describe(part, view, state);
    });
  }
}

class WaitingCards extends Cards {
  constructor(stage) {
    super(stage, "waiting", "Waiting");
  }

  contents(view) {
    const later = this.stage.options.spoilers ? view.run.requests.length - view.states.size : 0;
    return { ...view.queue, nobody: this.nobody(view, later) };
  }

  /** What to do where nobody waits. */
  nobody({ run, tick }, later) {
    if (later) return `Nobody waits; ${later} still to come. Step on.`;
    if (!this.stage.options.spoilers) return "Nobody waits.";
    const hasWaited = run.where.some((row) => row.slice(0, tick).some((where) => where === WAITING || where === PREEMPTED));
    return hasWaited ? "Nobody waits any more. Step back to see who did." : "Nobody waits: there is a lane for each.";
  }

  describe(part, view, state) {
    const facts = view.run.requests[state.request];
    const out = state.where === PREEMPTED;
    setAttr(part.node, "data-out", out ? "" : null);
    setAttr(part.tag, "data-kind", out ? "preempted" : "waiting");
    setText(part.tag, out ? (this.isMany ? "×" : "preempted ×") : `waits ${state.waited}`);
    setText(part.line, this.line(view, state, facts, out));
  }

  line(view, state, facts, out) {
    const level = view.settings.policy === "fcfs" ? "" : ` · class ${state.level}`;
    const saved = Math.ceil(state.saved / view.run.blockSize);
    if (this.isMany) return (saved ? `${saved} on host` : out ? `${state.tokens} again` : `${facts.prompt} tok`) + level;
    if (saved) return level ? `${saved} on host${level}` : `${counted(saved, "block")} on the host`;
    return (out ? `${state.tokens} tokens to redo` : `prompt ${facts.prompt}`) + level;
  }
}

/** Why a request ended without the whole answer, "" if it has it. */
function badEnd(run, request, tick) {
  const event = run.events.find(
    (one) => one.request === request && one.tick <= tick && (one.name === "finished" || one.name === "refused"),
  );
  return ENDS[event?.name === "refused" ? "rejected" : FINISH_REASONS[event?.number ?? 0]];
}

const ENDS = { stop: "", length: "", abort: "aborted", rejected: "refused", error: "failed" };

class FinishedCards extends Cards {
  constructor(stage) {
    super(stage, "finished", "Finished");
  }

  contents(view) {
    return { shown: view.finished, total: view.finished.length, nobody: "Nobody yet. Step on until an answer ends." };
  }

  describe(part, view, state) {
    const { run, tick } = view;
    const bad = badEnd(run, state.request, tick);
    const { before, fresh } = run.textAt(state.request, tick);
    const text = visible((before + fresh).trim());
    setAttr(part.tag, "data-kind", bad ? "preempted" : "generated");
    setText(part.tag, bad ? `${bad} ×` : this.isMany ? `${state.generated} ✓` : `${state.generated} tok ✓`);
    setText(part.line, text ? `“${text}”` : bad ? "no text" : "");
  }
}
