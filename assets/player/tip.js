// One tooltip for the whole stage: numbers of the thing under the pointer or the focus.

class Tip {
  constructor(root) {
    this.root = root;
    this.facts = new WeakMap();
    this.title = el("strong");
    this.list = el("dl");
    this.text = el("p");
    this.node = el("div", { class: "tip", role: "tooltip", hidden: "" }, this.title, this.list, this.text);
    root.append(this.node);
    root.addEventListener("pointerover", (event) => event.pointerType !== "touch" && this.enter(event.target));
    root.addEventListener("pointerleave", () => this.hide());
    root.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && this.enter(event.target));
    root.addEventListener("focusout", () => this.hide());
  }

  /** `tell` gives { title, rows: [[name, value], ...], text } or null when asked; the text may be left out. */
  on(node, tell) {
    this.facts.set(node, tell);
    return node;
  }

  enter(target) {
    let node = target;
    while (node && node !== this.root && !this.facts.has(node)) node = node.parentElement;
    if (!node || node === this.root) this.hide();
    else this.show(node);
  }

  show(node, at = null) {
    const told = this.isOff ? null : this.facts.get(node)?.();
    if (!told) return this.hide();
    this.shownFor = node;
    this.title.textContent = told.title;
    this.list.replaceChildren(...told.rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
    setText(this.text, told.text ?? "");
    this.node.hidden = false;
    return this.place(at ?? node.getBoundingClientRect());
  }

  place(box) {
    const frame = this.root.getBoundingClientRect();
    const own = this.node.getBoundingClientRect();
    const center = box.left + box.width / 2 - frame.left - own.width / 2;
    const left = Math.max(8, Math.min(center, frame.width - own.width - 8));
    const above = box.top - frame.top - own.height - 8;
    const top = above > 4 ? above : box.bottom - frame.top + 8;
    const scale = scaleOf(this.node);
    this.node.style.transform = `translate(${Math.round(left / scale)}px, ${Math.round(top / scale)}px)`;
  }

  /** The thing under the pointer may have changed with the tick. */
  refresh() {
    if (this.node.hidden || !this.shownFor) return;
    if (this.shownFor.isConnected && this.facts.has(this.shownFor)) this.show(this.shownFor);
    else this.hide();
  }

  hide() {
    this.node.hidden = true;
    this.shownFor = null;
  }
}

/** The numbers of a request, for every place where it is drawn. */
function requestFacts(view, request) {
  const state = view.states.get(request);
  const facts = view.run.requests[request];
  if (!state) return { title: facts.id, rows: [["not there yet", `arrives later`]] };
  const rows = [["prompt", counted(facts.prompt, "token")]];
  if (state.cached) rows.push(["from the cache", counted(state.cached, "token")]);
  if (state.loaded > state.cached) rows.push([view.run.lowerTier, counted(state.loaded - state.cached, "token")]);
  rows.push(["computed", `${state.computed} of ${state.tokens}`]);
  rows.push(["generated", `${state.generated} of at most ${facts.limit - facts.prompt}`]);
  if (state.scheduled) rows.push(["this tick", counted(state.scheduled, "token")]);
  if (state.again) rows.push(["computed again", counted(state.again, "token")]);
  if (view.settings.quantum && state.lane >= 0) rows.push(["slice", `${state.slice} of ${counted(view.settings.quantum, "tick")}`]);
  if (state.saved) rows.push(["on the host", counted(state.saved, "token")]);
  rows.push(["waited", counted(state.waited, "tick")]);
  if (state.preemptions) rows.push(["preempted", counted(state.preemptions, "time")]);
  rows.push(["class", String(state.level)]);
  return { title: facts.id, rows, words: facts.words };
}
