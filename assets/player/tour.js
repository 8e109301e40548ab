// A tour of the stage for first visitors: five stops, each lights some panels and says in a card what they show.

const TOUR_KEY = "tickscope.tour";
/** Where storage is blocked, at least the open page remembers. */
const TOUR_MARK = "__tickscopeTourTaken";

const STOPS = [
  {
    title: "Drive the run",
    text: "Play it, or go tick by tick with the buttons or the arrow keys. A tick is one pass through the model. The marks on the line are events: somebody is let in, finds text in the cache, is preempted, or is done.",
    lit: ({ transport, scrubber }) => [transport, scrubber],
  },
  {
    title: "Who waits",
    text: "Requests that have arrived and have no lane. The first card is the next to be let in. A request that had to give way waits here again.",
    lit: ({ waiting }) => [waiting],
  },
  {
    title: "What the model computes",
    text: "The bar on top is the token budget of this tick, shared out among the requests. Below it, a row is a lane with the request that runs in it: blue was read, green was written, an outline marks what this tick adds.",
    lit: ({ lanes }) => [lanes],
  },
  {
    title: "What it keeps in memory",
    text: "KV memory is handed out in blocks. A square is one, with the number of the request that it belongs to; a hatched one can be found again by others. The host pool holds what was saved of preempted requests.",
    lit: ({ blocks, host }) => [blocks, host],
  },
  {
    title: "The whole run, and why",
    text: "A row for each request, over all ticks; click to go there. The tick is told in words as well, with the reason for what was decided. Click a request anywhere to follow it through all panels.",
    lit: ({ timeline, narrator }) => [timeline, narrator],
  },
];
const HOLE_PAD = 5;
const HOLE_RADIUS = 14;
const CARD_GAP = 12;
/** So far a good tick to look at is searched for. */
const MOST_TICKS_TRIED = 200;

class Tour {
  constructor(stage) {
    this.stage = stage;
    const { searchParams } = new URL(window.location.href);
    this.isInstant = searchParams.has("tick") || searchParams.has("selected");
    this.makeCard();
    this.veil = svg("path", { "fill-rule": "evenodd" });
    this.rings = svg("g", {});
    this.reach = el("i", { class: "reach", "aria-hidden": "true" });
    this.node = el("div", { class: "tour", hidden: "" }, svg("svg", { "aria-hidden": "true" }, this.veil, this.rings), this.reach, this.card);
    this.node.addEventListener("keydown", (event) => this.key(event));
    const take = el("button", { class: "take", type: "button", text: "Take the tour", click: () => this.open() });
    const leave = el("button", { class: "leave", type: "button", "aria-label": "No tour, thank you", text: "×", click: () => this.decline() });
    this.offer = el("div", { class: "offer", role: "group", "aria-label": "For a first visit", hidden: "" }, take, leave);
    // A click in the tour is none on the stage, which would take the focus.
    for (const part of [this.node, this.offer]) part.addEventListener("click", (event) => event.stopPropagation());
    this.resize = new ResizeObserver(() => this.isOpen && this.place());
  }

  makeCard() {
    this.title = el("h2", { id: "tour-title" });
    this.text = el("p", { id: "tour-text" });
    this.dots = el("span", { class: "dots", "aria-hidden": "true" });
    this.count = el("span", { class: "hidden" });
    this.skip = el("button", { class: "plain", type: "button", text: "Skip", click: () => this.close() });
    this.back = el("button", { class: "plain", type: "button", text: "Back", click: () => this.go(this.at - 1) });
    this.next = el("button", { class: "main", type: "button", click: () => this.go(this.at + 1) });
    const said = el("div", { "aria-live": "polite" }, this.count, this.title, this.text);
    const foot = el("footer", {}, this.skip, this.dots, this.back, this.next);
    this.card = el("div", { class: "tour-card", role: "dialog", "aria-modal": "true", "aria-labelledby": "tour-title", "aria-describedby": "tour-text" }, said, foot);
  }

  get isOpen() {
    return !this.node.hidden;
  }

  /** Offers the tour quietly, to those who have neither taken nor declined it and were not sent to an instant. */
  update({ tour, teach }) {
    this.offer.hidden = !tour || Boolean(teach) || this.isInstant || this.isOpen || isTourTaken();
  }

  decline() {
    rememberTour();
    this.offer.hidden = true;
    this.stage.root.focus({ preventScroll: true });
  }

  open() {
    const { stage } = this;
    // A teacher may have hidden panels.
    this.stops = STOPS.filter((stop) => shownOf(stop, stage).length);
    if (!this.stops.length) return;
    stage.halt();
    this.before = this.offer.contains(stage.focused()) ? stage.root : (stage.focused() ?? stage.root);
    this.offer.hidden = true;
    this.from = stage.tick;
    stage.show(this.tickToShow(), { still: true });
    this.node.hidden = false;
    this.resize.observe(stage.root);
    // It appears where it belongs; from there on it moves.
    setAttr(this.card, "data-still", "");
    this.go(0);
    requestAnimationFrame(() => setAttr(this.card, "data-still", null));
  }

  /** The first tick from here on in which somebody waits, two run, and an answer has begun; else this one. */
  tickToShow() {
    const { run, tick, lastTick } = this.stage;
    for (let at = tick; at <= Math.min(lastTick, tick + MOST_TICKS_TRIED); at += 1) {
      const view = viewAt(run, at);
      const running = [...view.states.values()].filter((state) => state.where === RUNNING);
      if (view.queue.total && running.length > 1 && running.some((state) => state.generated)) return at;
    }
    return tick;
  }

  /** Goes to a stop; past the last one the tour is over. */
  go(at) {
    if (at >= this.stops.length) return this.close();
    this.at = Math.max(at, 0);
    const { title, text } = this.stops[this.at];
    setText(this.count, `Stop ${this.at + 1} of ${this.stops.length}. `);
    setText(this.title, title);
    setText(this.text, text);
    setText(this.next, this.at === this.stops.length - 1 ? "Done" : "Next");
    this.back.disabled = this.at === 0;
    this.dots.replaceChildren(...this.stops.map((_, i) => el("i", { "data-on": i === this.at ? "" : null })));
    this.place();
    this.reveal();
    return this.next.focus({ preventScroll: true });
  }

  /** Taken to the end or left on the way: it is not offered again. */
  close() {
    rememberTour();
    this.node.hidden = true;
    this.resize.disconnect();
    this.stage.show(this.from, { still: true });
    this.before.focus({ preventScroll: true });
  }

  key(event) {
    event.stopPropagation();
    const step = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
    if (event.key === "Escape") this.close();
    else if (event.key === "Tab") this.turn(event.shiftKey ? -1 : 1);
    else if (step) this.go(this.at + step);
    else return;
    event.preventDefault();
  }

  /** The Tab key goes round in the card. */
  turn(by) {
    const buttons = [this.skip, this.back, this.next].filter((button) => !button.disabled);
    const at = buttons.indexOf(this.stage.focused());
    buttons[(at + by + buttons.length) % buttons.length].focus({ preventScroll: true });
  }

  // --- where things stand -------------------------------------------------------------------------------------

  place() {
    const { root } = this.stage;
    const size = { width: root.clientWidth, height: root.clientHeight };
    const holes = joined(shownOf(this.stops[this.at], this.stage).map((node) => this.boxOf(node)));
    const outer = `M0 0H${size.width}V${size.height}H0Z`;
    this.veil.setAttribute("d", outer + holes.map(rounded).join(""));
    this.rings.replaceChildren(...holes.map((hole) => svg("path", { class: "ring", d: rounded(hole) })));
    const card = { width: this.card.offsetWidth, height: this.card.offsetHeight };
    const at = cardPlace(holes, card, size);
    this.card.style.transform = `translate(${at.left}px, ${at.top}px)`;
    const all = union([...at.beside, { ...at, right: at.left + card.width, bottom: at.top + card.height }]);
    Object.assign(this.reach.style, { left: `${all.left}px`, top: `${all.top}px`, width: `${all.right - all.left}px`, height: `${all.bottom - all.top}px` });
  }

  /** A panel in the stage's own pixels, with a margin, which stays inside the stage. */
  boxOf(node) {
    const { root } = this.stage;
    const scale = root.currentCSSZoom ?? 1;
    const frame = root.getBoundingClientRect();
    const box = node.getBoundingClientRect();
    const inside = (value, most) => Math.round(Math.max(0, Math.min(value, most)));
    return {
      left: inside((box.left - frame.left) / scale - HOLE_PAD, root.clientWidth),
      top: inside((box.top - frame.top) / scale - HOLE_PAD, root.clientHeight),
      right: inside((box.right - frame.left) / scale + HOLE_PAD, root.clientWidth),
      bottom: inside((box.bottom - frame.top) / scale + HOLE_PAD, root.clientHeight),
    };
  }

  /** Brings what is lit and the card onto the screen; if both do not fit, the card. */
  reveal() {
    const behavior = this.stage.motion.allowed ? "smooth" : "auto";
    const fits = this.reach.offsetHeight < window.innerHeight - 80;
    (fits ? this.reach : this.card).scrollIntoView({ block: "nearest", inline: "nearest", behavior });
  }
}

/** The panels that a stop lights, without those that are hidden. */
function shownOf(stop, stage) {
  return stop.lit(stage).map(({ node }) => node).filter((node) => !node.hidden);
}

function union(boxes) {
  return {
    left: Math.min(...boxes.map((box) => box.left)),
    top: Math.min(...boxes.map((box) => box.top)),
    right: Math.max(...boxes.map((box) => box.right)),
    bottom: Math.max(...boxes.map((box) => box.bottom)),
  };
}

function area({ left, top, right, bottom }) {
  return (right - left) * (bottom - top);
}

/** Neighbours as one box; what stands apart stays apart. */
function joined(boxes) {
  const all = union(boxes);
  return area(all) <= 1.3 * boxes.reduce((sum, box) => sum + area(box), 0) ? [all] : boxes;
}

/** Under what is lit, where there is room, else above it, else over its end. */
function cardPlace(holes, card, size) {
  const hole = holes[0];
  const middle = (hole.left + hole.right - card.width) / 2;
  const left = Math.round(Math.max(CARD_GAP, Math.min(middle, size.width - card.width - CARD_GAP)));
  const below = hole.bottom + CARD_GAP;
  const above = hole.top - CARD_GAP - card.height;
  const over = Math.max(CARD_GAP, hole.bottom - CARD_GAP - card.height);
  const top = below + card.height + CARD_GAP <= size.height ? below : above >= CARD_GAP ? above : over;
  return { left, top: Math.round(top), beside: [hole] };
}

/** A box with round corners as a path. */
function rounded({ left, top, right, bottom }) {
  const r = Math.max(0, Math.min(HOLE_RADIUS, (right - left) / 2, (bottom - top) / 2));
  const corner = (x, y) => `a${r} ${r} 0 0 1 ${x * r} ${y * r}`;
  return `M${left + r} ${top}H${right - r}${corner(1, 1)}V${bottom - r}${corner(-1, 1)}H${left + r}${corner(-1, -1)}V${top + r}${corner(1, -1)}Z`;
}

function isTourTaken() {
  if (window[TOUR_MARK]) return true;
  const storage = storageOrNull();
  return storage !== null && storage.getItem(TOUR_KEY) !== null;
}

function rememberTour() {
  window[TOUR_MARK] = true;
  try {
    storageOrNull()?.setItem(TOUR_KEY, "taken");
  } catch (error) {
    // A full storage is no reason to stop anybody; the mark on the window holds for this visit.
    if (error.name !== "QuotaExceededError") throw error;
  }
}

/** A browser may forbid storage to a page: asking for it alone then raises. */
function storageOrNull() {
  try {
    return window.localStorage;
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
    return null;
  }
}
