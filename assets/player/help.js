// The overlay that lists the keys and explains the panels.

const KEYS = [
  ["Space or .", "play or pause"],
  ["← →", "one tick back or forward"],
  ["PageUp PageDown", "the same, for a presenter's clicker"],
  ["Home End", "first or last tick"],
  ["N", "next event of the kind in the menu (Shift: the one before)"],
  ["1 2 3 4 5", "speed ½, 1, 2, 4, 8"],
  ["Esc", "let go of the selected request"],
  ["?", "this help, with the tour"],
  ...TEACH_KEYS,
];

const PANELS = [
  ["Waiting", "The queue, next to be admitted first. A preempted request waits here again, marked ×."],
  ["This tick on the model", "The token budget as one bar, shared out among the requests; below it a row a lane. The ring shows how much of its slice a request has used."],
  ["Finished", "Those that have ended, the latest first."],
  ["KV blocks", "A square a block with its owner's number, filled as far as it is computed; ×2 is shared by two. Hatched: findable in the prefix cache. Faded: kept for reuse. Outline: free. A ring marks what changed in this tick."],
  ["Host pool", "Blocks of preempted requests, saved in host memory."],
  ["Timeline", "A row a request, in order of arrival. Hatched thin: waiting. × preempted, ✓ finished. Click the numbers to go to a tick."],
];

class Help {
  constructor(stage) {
    this.stage = stage;
    this.close = el("button", { class: "round quiet", type: "button", "aria-label": "Close help", text: "×", click: () => this.hide() });
    const keys = el("dl", { class: "keys" }, ...KEYS.flatMap(([key, text]) => [el("dt", {}, ...caps(key)), el("dd", { text })]));
    const panels = el("dl", { class: "parts" }, ...PANELS.flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })]));
    this.again = el("button", { class: "again", type: "button", text: "Take the tour", click: (event) => this.tour(event) });
    const head = el("header", {}, el("h2", { text: "How to read and drive the stage" }), this.again, this.close);
    const card = el("div", { class: "sheet", tabindex: "-1" }, head, el("div", { class: "columns" }, keys, panels));
    this.card = card;
    this.node = el("div", { class: "help", role: "dialog", "aria-modal": "true", "aria-label": "Help", hidden: "" }, card);
    this.node.addEventListener("click", (event) => event.target === this.node && this.hide());
    this.node.addEventListener("keydown", (event) => this.key(event));
  }

  get isOpen() {
    return !this.node.hidden;
  }

  open() {
    this.stage.pause();
    this.before = this.stage.focused();
    this.node.hidden = false;
    this.close.focus({ preventScroll: true });
  }

  hide() {
    this.node.hidden = true;
    (this.before ?? this.stage.root).focus({ preventScroll: true });
  }

  /** The tour again, for whoever asks. */
  tour(event) {
    event.stopPropagation();
    this.hide();
    this.stage.tour.open();
  }

  /** The Tab key goes round between the two buttons. */
  turn(event) {
    event.preventDefault();
    (this.stage.focused() === this.close ? this.again : this.close).focus({ preventScroll: true });
  }

  key(event) {
    event.stopPropagation();
    if (event.key === "Escape" || event.key === "?") this.hide();
    if (event.key === "Tab") this.turn(event);
  }
}

function caps(text) {
  return text.split(" ").map((word) => (word === "or" ? " or " : el("kbd", { text: word })));
}
