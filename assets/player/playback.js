// The clock of the stage: one tick at a time by requestAnimationFrame, at a speed that may change on the way.

const BASE_TICK_MS = 500;
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

class Playback {
  /** `advance` draws the next tick and says whether there was one to draw. */
  constructor(advance) {
    this.advance = advance;
    this.speed = 1;
    this.playing = false;
    this.handle = 0;
    this.last = 0;
  }

  get interval() {
    return BASE_TICK_MS / this.speed;
  }

  play() {
    if (this.playing) return;
    this.playing = true;
    // The first tick comes at once, so that a click is answered within a frame.
    this.last = performance.now() - this.interval;
    this.handle = requestAnimationFrame((now) => this.frame(now));
  }

  pause() {
    this.playing = false;
    cancelAnimationFrame(this.handle);
  }

  frame(now) {
    if (!this.playing) return;
    if (now - this.last >= this.interval) {
      // What a slow machine misses is dropped, not caught up: no tick is skipped.
      this.last = now - this.last > 2 * this.interval ? now : this.last + this.interval;
      this.advance();
    }
    if (this.playing) this.handle = requestAnimationFrame((next) => this.frame(next));
  }
}
