// What the stage says to Python, and to the address: where it stands once things have come to rest, and wishes.

class Voice {
  constructor(stage) {
    this.stage = stage;
    this.spoken = 0;
  }

  /** Tells Python where the stage stands, after `delay` in which nothing else is said. */
  tell(delay = 0) {
    clearTimeout(this.emitting);
    this.writeUrl();
    this.spoken += 1;
    this.emitting = setTimeout(() => this.emitState(), delay);
  }

  /** Tells Python at once, and then presses the button that a hand is on. */
  tellBefore(button) {
    clearTimeout(this.emitting);
    this.spoken += 1;
    this.emitState(button, () => setTimeout(() => button.click(), TURN_MS));
  }

  emitState(root = this.stage.root, then = null) {
    const { stage } = this;
    this.writeUrl();
    // A word that still waits would say the same.
    floor.leave(this.word);
    const word = floor.take(root, () => {
      stage.emit?.state({
        tick: stage.tick,
        selected: stage.run.requests[stage.selected]?.id ?? null,
        playing: stage.playback.playing,
        seq: this.spoken,
      });
      then?.();
    });
    if (!then) this.word = word;
  }

  act(action) {
    floor.take(this.stage.root, () => this.stage.emit?.action(action));
  }

  fallSilent() {
    clearTimeout(this.emitting);
    floor.leave(this.stage.root);
  }

  /** The user has moved on since Python last listened: what it then asked for is out of date. */
  isOvertaken(command) {
    return typeof command.after === "number" && command.after < this.spoken;
  }

  /** The tick in the address, without an entry in the history. */
  writeUrl() {
    const { tick, playback, options: { url } } = this.stage;
    if (!url || playback.playing) return;
    const address = new URL(window.location.href);
    if (address.searchParams.get(url) === String(tick)) return;
    address.searchParams.set(url, String(tick));
    window.history.replaceState(window.history.state, "", address);
  }
}
