// The bar of a request: its tokens from left to right, by what is known of each.

class Bar {
  constructor() {
    this.parts = {};
    this.node = el("div", { class: "bar", "aria-hidden": "true" });
    for (const name of ["cached", "loaded", "computed", "generated", "todo", "chunk"]) {
      this.node.append((this.parts[name] = el("i", { class: `part ${name}`, hidden: "" })));
    }
  }

  /** `limit` tokens fill the bar. */
  draw(state, limit) {
    const known = state.tokens - state.computed <= 1 && state.computed >= state.prompt ? state.tokens : state.computed;
    const start = state.computed - state.scheduled;
    this.place("cached", 0, state.cached, limit);
    this.place("loaded", state.cached, state.loaded, limit);
    this.place("computed", state.loaded, Math.min(state.computed, state.prompt), limit);
    this.place("generated", Math.max(state.prompt, state.loaded), known, limit);
    this.place("todo", known, state.tokens, limit);
    // The last token is drawn at the end of the tick: a chunk that completes the prompt is outlined up to there.
    this.place("chunk", start, state.scheduled ? Math.max(state.computed, state.decodes ? known : 0) : start, limit);
    setAttr(this.parts.chunk, "data-again", state.again > 0 ? "" : null);
  }

  place(name, from, to, limit) {
    const part = this.parts[name];
    part.hidden = to <= from;
    if (part.hidden) return;
    // Held by its right edge: a part at its smallest width grows towards what is done.
    setStyle(part, "right", `${((1 - to / limit) * 100).toFixed(3)}%`);
    setStyle(part, "width", `${(((to - from) / limit) * 100).toFixed(3)}%`);
  }
}

/** Longer requests have longer bars, by the square root, so that short ones stay readable. */
function trackWidth(run, request) {
  const longest = Math.max(...run.requests.map((facts) => facts.limit));
  return Math.max(0.34, Math.sqrt(run.requests[request].limit / longest));
}
