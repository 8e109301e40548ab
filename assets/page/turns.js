// Turns to speak. Streamlit sends what was said in one instant as one message, and heeds one part of the page in it:
// so our parts speak one after the other, and not while a field of Streamlit's is about to.
const FLOOR = "__tickscopeFloor";
/** Streamlit sends what was said as soon as it can: in a timer without delay. */
const TURN_MS = 20;
/** A field of Streamlit's may speak up to 200 ms after a hand has left it. */
const FIELD_MS = 300;
/** A field that was given a file speaks when the file has been sent, and is often replaced by an empty one then. */
const UPLOAD_MS = 5000;
const LOOK_AFTER_MS = 100;
const HANDS = ["pointerdown", "pointerup", "keydown", "focusout"];
const FIELDS = "input, textarea, select, button, a, [role], [contenteditable]";

class Floor {
  constructor() {
    this.speeches = [];
    this.free = 0;
    this.touched = { time: -FIELD_MS, path: [] };
    for (const kind of HANDS) window.addEventListener(kind, (event) => this.touch(event), { capture: true, passive: true });
    window.addEventListener("change", (event) => this.upload(event.composedPath()[0]), { capture: true });
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
    const speech = { root, say };
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
    speech.say();
    this.pass();
  }

  readyAt({ root }) {
    if (this.isSending()) return performance.now() + LOOK_AFTER_MS;
    const { time, path } = this.touched;
    return path.includes(root) ? this.free : Math.max(this.free, time + FIELD_MS);
  }
}

/** One for the window, whichever script came first. */
const floor = (window[FLOOR] ??= new Floor());
