// The slider under the transport, with a mark for each event; hundreds of marks become thin strokes.

const MARKS = [
  { names: ["preempted", "refused", "fault"], color: "--pre", shape: "diamond" },
  { names: ["hit"], color: "--cach", shape: "dot" },
  { names: ["admitted"], color: "--comp", shape: "up" },
  { names: ["finished"], color: "--gen", shape: "check" },
  { names: ["config"], color: "--ink", shape: "square" },
];
const PAD = 9;
const ROOM = 10;
const UPPER = 6;

class Scrubber {
  constructor(stage) {
    this.stage = stage;
    this.canvas = el("canvas", { class: "marks", "aria-hidden": "true" });
    this.range = el("input", {
      type: "range", min: "0", step: "1", "aria-label": "Tick",
      input: () => stage.scrub(Number(this.range.value)),
      change: () => stage.endScrub(),
    });
    this.track = el("div", { class: "track", "aria-hidden": "true" }, (this.done = el("i")));
    this.node = el("div", { class: "scrubber" }, this.canvas, this.track, this.range);
  }

  x(tick, width) {
    const most = Math.max(this.stage.lastTick, 1);
    return PAD + (tick / most) * (width - 2 * PAD);
  }

  layout() {
    const { run, options } = this.stage;
    setAttr(this.range, "max", String(Math.max(run.length - 1, 0)));
    setAttr(this.node, "data-computing", options.computing ? "" : null);
    const width = this.node.clientWidth;
    const context = prepareCanvas(this.canvas, width, 14);
    if (!context) return;
    const shown = options.spoilers ? run.events : run.events.filter((event) => event.tick <= this.stage.tick);
    const marks = shown.filter((event) => MARKS.some((mark) => mark.names.includes(event.name)));
    const crowded = marks.length * ROOM > width;
    // Preemptions are drawn last, above whatever else happened in the same tick.
    for (const mark of [...MARKS].reverse()) {
      context.fillStyle = this.stage.color(mark.color);
      context.strokeStyle = context.fillStyle;
      const ticks = new Set(marks.filter((event) => mark.names.includes(event.name)).map((event) => event.tick));
      for (const tick of ticks) drawMark(context, mark.shape, this.x(tick, width), crowded);
    }
  }

  draw(view) {
    if (this.range.value !== String(view.tick)) this.range.value = String(view.tick);
    const width = this.node.clientWidth;
    this.done.style.width = `${this.x(view.tick, width)}px`;
    const headline = view.narration.lines[0];
    setAttr(this.range, "aria-valuetext", `tick ${view.tick} of ${this.stage.lastTick}${headline ? `: ${headline.lead}` : ""}`);
    if (!this.stage.options.spoilers) this.layout();
  }
}

/** Decisions stand in the upper row, the rest in the lower; when crowded each is a stroke in its row. */
function drawMark(context, shape, x, crowded) {
  const important = shape === "diamond" || shape === "dot" || shape === "square";
  if (crowded) {
    context.fillRect(x - 0.75, important ? 0 : 8, 1.5, important ? 7 : 4);
    return;
  }
  context.beginPath();
  if (shape === "diamond") polygon(context, [[x, UPPER - 5], [x + 5, UPPER], [x, UPPER + 5], [x - 5, UPPER]]);
  else if (shape === "dot") context.arc(x, UPPER, 4, 0, 7);
  else if (shape === "square") context.rect(x - 3.5, UPPER - 3.5, 7, 7);
  else if (shape === "up") polygon(context, [[x, UPPER - 1], [x + 3.5, UPPER + 5], [x - 3.5, UPPER + 5]]);
  if (shape === "check") {
    context.lineWidth = 1.8;
    context.moveTo(x - 3.5, UPPER + 1);
    context.lineTo(x - 1, UPPER + 4);
    context.lineTo(x + 4, UPPER - 3);
    context.stroke();
  } else {
    context.fill();
  }
}

function polygon(context, points) {
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
}

/** A cleared drawing context in CSS pixels, sharp on any screen; null where nothing can be shown yet. */
function prepareCanvas(canvas, width, height) {
  if (!(width > 0 && height > 0)) return null;
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}
