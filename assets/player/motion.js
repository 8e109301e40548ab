// What moves: a chip flies from where a request was to where it is now. Never changes what is drawn.

const MOVE_MS = 220;
const SHORTEST_MS = 90;

class Motion {
  constructor(root) {
    this.root = root;
    this.layer = el("div", { class: "flights", "aria-hidden": "true" });
    root.append(this.layer);
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
  }

  get allowed() {
    return !this.calm.matches;
  }

  /** Where each request that is about to move stands on screen. */
  places(requests, locate) {
    const places = new Map();
    for (const request of requests) {
      const node = locate(request);
      if (node?.isConnected) places.set(request, node.getBoundingClientRect());
    }
    return places;
  }

  /** Flies one chip a request from `places` to where `locate` finds it now. */
  fly(places, locate, label, tint, milliseconds) {
    if (!this.allowed || milliseconds < SHORTEST_MS) return;
    const frame = this.root.getBoundingClientRect();
    for (const [request, from] of places) {
      const node = locate(request);
      if (!node?.isConnected) continue;
      this.launch(from, node.getBoundingClientRect(), frame, label(request), tint(request), milliseconds);
    }
  }

  launch(from, to, frame, label, tint, milliseconds) {
    const chip = el("div", { class: "flight", "data-tint": tint, text: label });
    this.layer.append(chip);
    const scale = scaleOf(this.layer);
    const at = (box) => `translate(${(box.left - frame.left) / scale + 8}px, ${(box.top - frame.top + box.height / 2) / scale - 11}px)`;
    const flight = chip.animate(
      [
        { transform: at(from), opacity: 0.4 },
        { opacity: 1, offset: 0.25 },
        { opacity: 1, offset: 0.8 },
        { transform: at(to), opacity: 0 },
      ],
      { duration: milliseconds, easing: "cubic-bezier(.3,.1,.2,1)" },
    );
    flight.onfinish = flight.oncancel = () => chip.remove();
  }
}
