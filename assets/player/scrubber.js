// The slider under the transport, with a mark for each event; hundreds of marks become thin strokes.

const MARKS = [
  { names: ["preempted", "refused", "fault"], color: "--pre", shape: "diamond" },
  { names: ["hit", "loaded"], color: "--cach", shape: "dot" },
  { names: ["admitted"], color: "--comp", shape: "up" },
  { names: ["finished"], color: "--gen", shape: "check" },
  { names: ["config"], color: "--ink", shape: "square" },
];
const PAD = 9;
const UPPER = 6;
const LARGEST = 5;
const SMALLEST = 3;

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
    this.flag = el("b", { class: "flag", "aria-hidden": "true", text: "≠", hidden: "" });
    this.node = el("div", { class: "scrubber" }, this.canvas, this.track, this.flag, this.range);
  }

  x(tick, width) {
    const most = Math.max(this.stage.room, 1);
    return PAD + (tick / most) * (width - 2 * PAD);
  }

  layout() {
    const { run, options } = this.stage;
    setAttr(this.range, "max", String(this.stage.room));
    setAttr(this.node, "data-computing", options.computing ? "" : null);
    const width = this.node.clientWidth;
    this.layoutFlag(width);
    const context = prepareCanvas(this.canvas, width, 14);
    if (!context) return;
    const shown = options.spoilers ? run.events : run.events.filter((event) => event.tick <= this.stage.tick);
    const marks = shown.filter((event) => MARKS.some((mark) => mark.names.includes(event.name)));
    const size = markSize(marks.map((event) => this.x(event.tick, width)));
    const done = new Set();
    for (const { names, color, shape } of MARKS) {
      context.fillStyle = context.strokeStyle = this.stage.color(color);
      for (const { tick, name } of marks) {
        // One mark a tick, for what matters most; strokes of two rows do not hide each other.
        if (!names.includes(name) || (size && done.has(tick))) continue;
        done.add(tick);
        drawMark(context, shape, this.x(tick, width), size);
      }
    }
  }

  /** The flag stands at the first tick in which two compared runs differ. */
  layoutFlag(width) {
    const { mark, spoilers } = this.stage.options;
    this.flag.hidden = !(Number.isInteger(mark) && spoilers);
    setStyle(this.flag, "left", `${this.x(mark ?? 0, width).toFixed(1)}px`);
  }

  draw(view) {
    const { tick, end, options } = this.stage;
    if (this.range.value !== String(tick)) this.range.value = String(tick);
    const width = this.node.clientWidth;
    this.done.style.width = `${this.x(tick, width)}px`;
    const headline = view.narration.lines[0];
    const differs = tick === options.mark ? ", the first that differs" : "";
    setAttr(this.range, "aria-valuetext", `tick ${tick} of ${end}${differs}${headline ? `: ${headline.lead}` : ""}`);
    if (!this.stage.options.spoilers) this.layout();
  }
}

/** Half the distance that most marks keep; 0 where they are so dense that only strokes stay apart. */
function markSize(places) {
  const distinct = [...new Set(places)].sort((a, b) => a - b);
  const gaps = distinct.slice(1).map((x, i) => x - distinct[i]).sort((a, b) => a - b);
  const usual = gaps.length ? gaps[Math.floor(gaps.length / 4)] : Infinity;
  return usual < 2 * SMALLEST ? 0 : Math.min(usual / 2, LARGEST);
}

/** Without a size each is a stroke: decisions in the upper row, the rest in the lower. */
function drawMark(context, shape, x, size) {
  const important = shape === "diamond" || shape === "dot" || shape === "square";
  if (!size) {
    context.fillRect(x - 0.75, important ? 0 : 8, 1.5, important ? 7 : 4);
    return;
  }
  const y = UPPER;
  context.beginPath();
  if (shape === "diamond") polygon(context, [[x, y - size], [x + size, y], [x, y + size], [x - size, y]]);
  else if (shape === "dot") context.arc(x, y, size * 0.84, 0, 7);
  else if (shape === "square") context.rect(x - size * 0.7, y - size * 0.7, size * 1.4, size * 1.4);
  else if (shape === "up") polygon(context, [[x, y - 1], [x + size * 0.75, y + 5], [x - size * 0.75, y + 5]]);
  if (shape === "check") {
    context.lineWidth = 1.8;
    polyline(context, [[x - size * 0.7, y + 1], [x - size * 0.2, y + 4], [x + size * 0.8, y - 3]]);
    context.stroke();
  } else {
    context.fill();
  }
}

function polyline(context, points) {
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
}

function polygon(context, points) {
  polyline(context, points);
  context.closePath();
}

/** A cleared drawing context in CSS pixels, sharp on any screen; null where nothing can be shown yet. */
function prepareCanvas(canvas, width, height, scale = scaleOf(canvas)) {
  if (!(width > 0 && height > 0)) return null;
  const ratio = Math.min((window.devicePixelRatio || 1) * scale, 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}
