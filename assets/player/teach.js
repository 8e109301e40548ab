// The teacher view: the stage as large as fits, without what the teacher hides, driven by a clicker from anywhere.

const TEACH_KEYS = [
  ["PageUp PageDown", "teacher view: one tick, in a lesson one step, wherever the focus is; a question is revealed or skipped"],
  ["B or .", "teacher view: black screen, and back"],
  ["F5", "teacher view: play or pause"],
  ["Esc", "teacher view: pause; else to the way out, and once more: leave"],
];

const LARGEST_SCALE = 2.6;
const SCALE_STEP = 0.04;
/** The screen's height at which the stage may be drawn at its own size, and no smaller: then type keeps 1.6 % of it. */
const PLAIN_HEIGHT = 900;
const PLAIN_TWIN_HEIGHT = 1000;
/** No panel can be read on a stage that is narrower, in its own pixels. */
const NARROWEST = 460;
/** The share of the screen's height that stays free below the stage. */
const MARGIN = 0.035;
/** How much larger the type is than the pixels around it. */
const TYPE = 1.15;

/** Where a key is typed or answered; a clicker's keys are then left alone. */
const BUSY = "input:not([type=range], [type=radio], [type=checkbox], [type=button]), textarea, select, [contenteditable=true], [role=dialog], dialog, [role=listbox]";
const OPEN = "[role=dialog], [data-testid=stPopoverBody]";
const LEAVE = ".st-key-teach_leave button";
const MENU = ".st-key-pop_teach button";
/** What leads on in a lesson: the answer that was chosen, else no answer, else the next step. */
const ONWARD = [".st-key-lesson_reveal button", ".st-key-lesson_skip button", ".st-key-lesson_on button"];
const BACKWARD = [".st-key-lesson_back button"];
const BAND = ".st-key-teach_lesson .st-key-lesson_band";
/** Pixels of a text out of sight that are worth a scroll of their own. */
const WORTH = 24;

class Teach {
  constructor(stage) {
    this.stage = stage;
    this.wish = null;
    this.without = [];
    this.black = new BlackScreen();
  }

  listen(signal) {
    document.addEventListener("keydown", (event) => this.key(event), { signal, capture: true });
    // The menu offers a code of this very instant: the stage stops and says where it stands.
    document.addEventListener("click", (event) => event.target.closest?.(MENU) && this.stage.pause(), { signal, capture: true });
    window.addEventListener("resize", () => this.fitSoon(), { signal });
    this.frame = this.stage.parent.host ?? this.stage.parent;
    this.resize = new ResizeObserver(() => this.frame.clientWidth !== this.width && this.fitSoon());
    this.resize.observe(this.frame);
  }

  destroy() {
    cancelAnimationFrame(this.waiting);
    this.resize.disconnect();
    this.black.lift();
  }

  get isOn() {
    return this.wish !== null;
  }

  get type() {
    return this.isOn ? TYPE : 1;
  }

  hides(part) {
    return this.without.includes(part) || (this.wish?.hide.includes(part) ?? false);
  }

  /** Takes what the page says: null where the teacher view is off; `without` are parts that it leaves away in any view. */
  update(wish, without) {
    this.wish = wish;
    this.without = without;
    const { root, transport, scrubber, blocks, host, timeline, narrator } = this.stage;
    setAttr(root, "data-large", wish ? "" : null);
    for (const node of [transport.group, transport.jump, transport.speed]) node.hidden = this.hides("buttons");
    scrubber.node.hidden = this.hides("scrubber");
    blocks.node.hidden = this.hides("blocks");
    host.node.hidden = blocks.node.hidden || this.hides("host");
    timeline.node.hidden = this.hides("timeline");
    narrator.node.hidden = this.hides("narration");
    this.stage.tip.isOff = this.hides("tips");
    setAttr(root, "data-halves", wish && !blocks.node.hidden && !timeline.node.hidden ? "" : null);
    this.fitSoon();
  }

  // --- size ---------------------------------------------------------------------------------------------------

  /** Once the page around the stage has come to rest: what stands above it takes its room. */
  fitSoon() {
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => (this.waiting = requestAnimationFrame(() => this.fit())));
  }

  /** The largest scale at which all of the stage is on the screen; below the smallest that can be read the page scrolls. */
  fit() {
    const { root } = this.stage;
    this.width = this.frame.clientWidth;
    if (!this.wish || !this.width) {
      root.style.zoom = "";
      return;
    }
    const before = root.style.zoom;
    const room = window.innerHeight * (1 - MARGIN) - this.top();
    const most = Math.min(LARGEST_SCALE, Math.max(1, this.width / NARROWEST));
    const least = Math.min(window.innerHeight / (this.stage.link ? PLAIN_TWIN_HEIGHT : PLAIN_HEIGHT), most);
    let scale = most;
    while (scale > least && this.height(scale) > room) scale -= SCALE_STEP;
    root.style.zoom = Math.max(scale, least).toFixed(2);
    if (root.style.zoom !== before) this.stage.redraw();
  }

  /** How far the stage is from the top of the page, wherever that is scrolled to. */
  top() {
    const main = document.querySelector("[data-testid=stMain]");
    return this.stage.root.getBoundingClientRect().top + (main?.scrollTop ?? 0);
  }

  height(scale) {
    const { root, blocks } = this.stage;
    root.style.zoom = scale.toFixed(2);
    blocks.layout();
    return root.getBoundingClientRect().height;
  }

  // --- keys ---------------------------------------------------------------------------------------------------

  /** Of linked stages the first takes the keys; the others follow it. */
  get leads() {
    return !this.stage.link || [...(LINKED.get(this.stage.link) ?? [])][0] === this.stage;
  }

  key(event) {
    if (!this.wish || !this.leads || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.composedPath().some((node) => node.matches?.(BUSY))) return;
    const act = this.actionFor(event);
    if (!act) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    act();
  }

  actionFor(event) {
    switch (event.key) {
      case "PageDown": return () => this.go(1);
      case "PageUp": return () => this.go(-1);
      case ".": case "b": case "B": return () => this.black.drop(this.stage);
      case "F5": return () => this.stage.toggle();
      case "Escape": return this.stop();
      default: return null;
    }
  }

  go(by) {
    if (this.wish.clicker === "run") {
      // A quiz asks at the end of what may be seen.
      if (by < 0 || this.stage.tick < this.stage.end || !press(ONWARD)) this.stage.step(by);
    } else if (!turnPage(by)) press(by > 0 ? ONWARD : BACKWARD);
  }

  /** Stops what can be stopped; else the way out gets the focus, and Escape there leaves. */
  stop() {
    if (document.querySelector(OPEN)) return null;
    if (this.stage.isMoving) return () => this.stage.pause();
    if (this.stage.selected >= 0) return () => this.stage.select(-1);
    const leave = document.querySelector(LEAVE);
    if (!leave) return null;
    return () => (document.activeElement === leave ? leave.click() : leave.focus());
  }
}

/** Scrolls on in a text that is longer than the screen; false where there is no more of it that way. */
function turnPage(by) {
  const band = document.querySelector(BAND);
  if (!band) return false;
  const left = by > 0 ? band.scrollHeight - band.clientHeight - band.scrollTop : band.scrollTop;
  band.scrollTop = left < WORTH ? 0 : band.scrollTop + by * 0.75 * band.clientHeight;
  return left >= WORTH;
}

/** Presses the first button that is there and can be pressed; says whether there was one. */
function press(selectors) {
  const buttons = selectors.map((selector) => document.querySelector(selector));
  const found = buttons.find((button) => button && !button.disabled);
  found?.click();
  return Boolean(found);
}

/** Nothing to see until the next key or click, so that all look at the teacher. */
class BlackScreen {
  drop(stage) {
    stage.pause();
    const text = el("p", { text: "The screen is black. Any key brings it back." });
    text.style.cssText = "position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); color: #fff";
    this.node = el("dialog", { class: "tickscope-black", "aria-label": "Black screen" }, text);
    this.node.style.cssText = "position: fixed; inset: 0; width: 100vw; height: 100vh; max-width: none; max-height: none; margin: 0; padding: 0; border: 0; outline: 0; background: #000; cursor: none";
    this.node.addEventListener("click", () => this.lift());
    this.node.addEventListener("cancel", () => this.lift());
    this.node.addEventListener("keydown", (event) => {
      if (["Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      this.lift();
    });
    document.body.append(this.node);
    this.node.showModal();
  }

  lift() {
    this.node?.close();
    this.node?.remove();
    this.node = null;
  }
}
