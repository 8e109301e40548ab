// Keys of the stage, only while it has the focus.

const KEY_SPEEDS = { 1: 0.5, 2: 1, 3: 2, 4: 4, 5: 8 };

class Keys {
  constructor(stage) {
    this.stage = stage;
  }

  listen(signal) {
    const { root } = this.stage;
    root.addEventListener("keydown", (event) => this.press(event), { signal });
    root.addEventListener("click", (event) => this.takeFocus(event), { signal });
  }

  press(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (target.matches?.("select, textarea, input:not([type=range])")) return;
    if (event.key === " " && target.matches?.("button")) return;
    const act = this.actionFor(event);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  actionFor(event) {
    const { stage } = this;
    if (event.key in KEY_SPEEDS) return () => stage.setSpeed(KEY_SPEEDS[event.key]);
    switch (event.key) {
      case " ": case ".": return () => stage.toggle();
      case "ArrowLeft": case "PageUp": return () => stage.step(-1);
      case "ArrowRight": case "PageDown": return () => stage.step(1);
      case "Home": return () => stage.seek(0);
      case "End": return () => stage.seek(stage.end);
      case "n": return () => stage.jump(1);
      case "N": return () => stage.jump(-1);
      case "?": return () => stage.help.open();
      case "Escape": return stage.selected >= 0 ? () => stage.select(-1) : null;
      default: return null;
    }
  }

  /** After a click the keys work; who tabs to a button keeps the focus there. */
  takeFocus(event) {
    const target = event.composedPath()[0];
    const isPointer = event.detail > 0;
    if (!isPointer || this.stage.help.isOpen || target.closest?.("select, input")) return;
    this.stage.root.focus({ preventScroll: true });
  }
}
