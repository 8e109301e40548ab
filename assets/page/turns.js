// Turns to speak. Streamlit sends what was said in one instant as one message, and heeds one part of the page in it:
// so our parts speak one after the other, and not while a field of Streamlit's is about to. Nor before the page has
// drawn what it said to the last word: Streamlit drops what it has not yet sent of a part that speaks again, and the
// browser then takes that part away, with the focus in it.
const FLOOR = "__tickscopeFloor";
/** Streamlit sends what was said as soon as it can: in a timer without delay. */
const TURN_MS = 20;
/** A field of Streamlit's may speak up to 200 ms after a hand has left it. */
const FIELD_MS = 300;
/** A field that was given a file speaks when the file has been sent, and is often replaced by an empty one then. */
const UPLOAD_MS = 5000;
const LOOK_AFTER_MS = 100;
/** The page begins to run this soon after a word, or it has run already and nobody saw it. */
const BEGIN_MS = 1000;
/** A run that asks for another is followed by it after less than this. */
const REST_MS = 150;
/** No word waits longer than this for the page to be at rest. */
const PATIENCE_MS = 3000;
const SCRIPT_RUNS = ["running", "rerunRequested"];
const HANDS = ["pointerdown", "pointerup", "keydown", "focusout"];
const FIELDS = "input, textarea, select, button, a, [role], [contenteditable]";

/** From when on, as far as one can tell, Streamlit does not run the page's script. */
class Script {
  constructor(onRest) {
    this.onRest = onRest;
    this.quietFrom = 0;
    this.app = document.querySelector("[data-testid=stApp]");
    if (!this.app) return;
    new MutationObserver(() => this.look()).observe(this.app, { attributeFilter: ["data-test-script-state"] });
    this.look();
  }

  look() {
    if (SCRIPT_RUNS.includes(this.app.dataset.testScriptState)) {
      this.quietFrom = Infinity;
    } else {
      this.quietFrom = performance.now() + REST_MS;
      this.onRest();
    }
  }

  ask() {
    if (this.app) this.quietFrom = performance.now() + BEGIN_MS;
  }
}

class Floor {
  constructor() {
    this.speeches = [];
    this.free = 0;
    this.touched = { time: -FIELD_MS, path: [] };
    this.script = new Script(() => this.pass());
    for (const kind of HANDS) window.addEventListener(kind, (event) => this.touch(event), { capture: true, passive: true });
    window.addEventListener("change", (event) => this.upload(event.composedPath()[0]), { capture: true });
    window.addEventListener("click", (event) => this.hold(event), { capture: true });
  }

  /** A press while a word is on its way would go in the same message, unheard: it goes through after that. */
  hold(event) {
    if (!this.onWay || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const pressed = event.composedPath().find((part) => part instanceof HTMLElement);
    if (!pressed) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    setTimeout(() => pressed.click(), 0);
  }

  upload(field) {
    if (field.type === "file") this.sending = { field, until: performance.now() + UPLOAD_MS };
  }

  isSending() {
    return this.sending?.field.isConnected && performance.now() < this.sending.until;
  }

  touch(event) {
    const path = event.composedPath();
    // A key pressed with no field in hand is for the stage.
    if (event.type === "keydown" && !path[0].matches?.(FIELDS)) return;
    this.touched = { time: performance.now(), path };
  }

  /** Says it now, or when its turn comes; `root` is the part of the page that speaks. */
  take(root, say) {
    const speech = { root, say, since: performance.now() };
    this.speeches.push(speech);
    this.pass();
    return speech;
  }

  /** Drops one speech, or all of a part that has left the page. */
  leave(whose) {
    this.speeches = this.speeches.filter((speech) => speech !== whose && speech.root !== whose);
  }

  pass() {
    clearTimeout(this.timer);
    if (!this.speeches.length) return;
    const times = this.speeches.map((speech) => this.readyAt(speech));
    const first = Math.min(...times);
    const rest = first - performance.now();
    if (rest > 0) {
      this.timer = setTimeout(() => this.pass(), rest);
      return;
    }
    const [speech] = this.speeches.splice(times.indexOf(first), 1);
    this.free = performance.now() + TURN_MS;
    this.script.ask();
    this.onWay = true;
    try {
      speech.say();
    } finally {
      setTimeout(() => { this.onWay = false; }, 0);
    }
    this.pass();
  }

  readyAt({ root, since }) {
    if (this.isSending()) return performance.now() + LOOK_AFTER_MS;
    const { time, path } = this.touched;
    const free = Math.max(this.free, Math.min(this.script.quietFrom, since + PATIENCE_MS));
    return path.includes(root) ? free : Math.max(free, time + FIELD_MS);
  }
}

/** One for the window, whichever script came first. */
const floor = (window[FLOOR] ??= new Floor());
