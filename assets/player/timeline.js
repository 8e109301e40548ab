// A row a request in order of arrival, a column a tick. The whole run is painted once; each tick only
// copies it up to the playhead, and what is still to come shows through faintly behind.

const AXIS = 16;
const FUTURE_ALPHA = 0.2;

const HELD = 1;
const AWAY = 2;
const READ = 3;
const WROTE = 4;
const STALL = 5;

class Timeline {
  constructor(stage) {
    this.stage = stage;
    this.count = el("span", { class: "count" });
    this.names = el("div", { class: "row-names", "aria-hidden": "true" });
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.head = el("div", { class: "playhead", "aria-hidden": "true" });
    this.band = el("div", { class: "row-band", "aria-hidden": "true", hidden: "" });
    this.column = el("div", { class: "column", "aria-hidden": "true" });
    this.area = el("div", { class: "area" }, this.band, this.column, this.canvas, this.head);
    this.axis = el("canvas", { class: "axis", "aria-hidden": "true" });
    this.scroll = el("div", { class: "rows", tabindex: "0", role: "img" }, this.names, this.area);
    this.node = el("section", { class: "panel timeline" }, heading("Timeline", this.count), this.scroll, this.axis);
    this.listen();
  }

  listen() {
    this.area.addEventListener("click", (event) => {
      const { row } = this.under(event);
      if (row >= 0) this.stage.toggleSelection(row);
    });
    this.axis.addEventListener("click", (event) => this.stage.seek(this.under(event).tick));
    this.area.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.hover(event));
    this.area.addEventListener("pointerleave", () => this.stage.tip.hide());
    this.names.addEventListener("click", (event) => {
      const row = [...this.names.children].indexOf(event.target);
      if (row >= 0) this.stage.toggleSelection(row);
    });
    this.stage.tip.on(this.area, () => this.told ?? null);
  }

  under(event) {
    const box = this.area.getBoundingClientRect();
    const { run } = this.stage;
    const scale = scaleOf(this.area);
    const tick = Math.max(0, Math.min(Math.floor((event.clientX - box.left) / scale / this.pitch), this.stage.end));
    const row = Math.floor((event.clientY - box.top) / scale / this.rowHeight);
    return { tick, row: row < run.requests.length ? row : -1 };
  }

  hover(event) {
    const { tick, row } = this.under(event);
    const { run, tip, options } = this.stage;
    this.told = null;
    if (row >= 0 && tick < run.length && (options.spoilers || tick <= this.stage.tick)) this.told = cellFacts(run, row, tick);
    event.stopPropagation();
    tip.facts.set(this.area, () => this.told);
    tip.show(this.area, { left: event.clientX, width: 0, top: event.clientY - 6, bottom: event.clientY + 6 });
  }

  layout() {
    const { run } = this.stage;
    const rows = run.requests.length;
    this.rowHeight = (rows <= 8 ? 18 : rows <= 14 ? 16 : 13) + (this.stage.teach.isOn ? 3 : 0);
    setStyle(this.node, "--row", `${this.rowHeight}px`);
    this.names.replaceChildren(...run.requests.map((facts) => el("span", { text: facts.id, title: facts.id })));
    this.width = this.area.clientWidth;
    this.height = rows * this.rowHeight;
    // The names may have pushed a scroll bar in: the axis stands under the area, wherever that is.
    setStyle(this.axis, "transform", `translateX(${this.area.offsetLeft}px)`);
    this.pitch = this.width / Math.max(this.stage.room + 1, this.stage.options.computing ? 24 : 1);
    this.paint();
  }

  /** Two pictures of the whole run: `full` and nothing else changes until the size, theme or data does. */
  paint() {
    this.full = document.createElement("canvas");
    const context = prepareCanvas(this.full, this.width, this.height, scaleOf(this.canvas));
    if (!context) return;
    const { run } = this.stage;
    const brush = new Brush(context, this.stage, this.pitch, this.rowHeight);
    brush.idle(run);
    run.requests.forEach((_, row) => brush.row(run, row));
    prepareCanvas(this.canvas, this.width, this.height);
    const axis = prepareCanvas(this.axis, this.width, AXIS);
    new Brush(axis, this.stage, this.pitch, this.rowHeight).axis(run, this.width);
  }

  draw(view) {
    const { run } = view;
    if (!this.full?.width) return;
    const edge = Math.min((this.stage.tick + 1) * this.pitch, this.width);
    const context = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.width;
    const cut = Math.round(edge * ratio);
    const rest = this.canvas.width - cut;
    const height = this.canvas.height;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, height);
    if (cut > 0) context.drawImage(this.full, 0, 0, cut, height, 0, 0, cut, height);
    context.globalAlpha = FUTURE_ALPHA;
    if (rest > 0 && this.stage.options.spoilers) context.drawImage(this.full, cut, 0, rest, height, cut, 0, rest, height);
    context.globalAlpha = 1;
    setStyle(this.head, "transform", `translateX(${edge.toFixed(1)}px)`);
    setStyle(this.column, "width", `${this.pitch.toFixed(1)}px`);
    setStyle(this.column, "transform", `translateX(${(edge - this.pitch).toFixed(1)}px)`);
    this.drawSelection();
    this.follow(view);
    this.tellCount(view);
    setAttr(this.scroll, "aria-label", timelineWords(view, this.stage.options.spoilers));
  }

  /** How much there is; without spoilers only those who have arrived, and the ticks up to this one. */
  tellCount(view) {
    const { run } = view;
    const { spoilers } = this.stage.options;
    const last = spoilers ? run.length - 1 : view.tick;
    const more = (this.stage.options.room ?? 0) > last + 1 ? " so far" : "";
    setText(this.count, run.length ? `${counted(spoilers ? run.requests.length : view.states.size, "request")}, ticks 0 to ${last}${more}` : "");
    [...this.names.children].forEach((name, row) => setStyle(name, "visibility", spoilers || view.states.has(row) ? "" : "hidden"));
  }

  drawSelection() {
    const { selected } = this.stage;
    this.band.hidden = selected < 0;
    setStyle(this.band, "transform", `translateY(${Math.max(selected, 0) * this.rowHeight}px)`);
    [...this.names.children].forEach((name, row) => setAttr(name, "data-spot", this.stage.spot(row)));
  }

  /** Keeps the rows that run in sight, inside the panel only. */
  follow(view) {
    if (view.tick === this.followed) return;
    this.followed = view.tick;
    if (this.scroll.scrollHeight <= this.scroll.clientHeight + 1) return;
    const rows = view.lanes.filter((request) => request >= 0);
    if (!rows.length) return;
    const first = Math.min(...rows) * this.rowHeight;
    const last = (Math.max(...rows) + 1) * this.rowHeight;
    if (first < this.scroll.scrollTop || last > this.scroll.scrollTop + this.scroll.clientHeight) {
      this.scroll.scrollTop = Math.max(0, Math.min(first - this.rowHeight, last - this.scroll.clientHeight));
    }
  }
}

/** What a request did in a tick, as one of the kinds of cell. */
function cellKind(run, row, tick) {
  const where = run.where[row][tick];
  if (run.scheduled[row][tick]) return run.scheduled[row][tick] & 1 ? WROTE : READ;
  if (where === RUNNING) return STALL;
  if (where === WAITING) return HELD;
  return where === PREEMPTED ? AWAY : 0;
}

const CELL_WORDS = ["not there", "waiting", "preempted, waiting", "computing", "generating", "in a lane, nothing scheduled"];

function cellFacts(run, row, tick) {
  const state = run.stateAt(row, tick);
  const rows = [["tick", String(tick)], ["state", state.where === FINISHED && !state.scheduled ? "finished" : CELL_WORDS[cellKind(run, row, tick)]]];
  if (state.scheduled) rows.push(["tokens", String(state.scheduled)]);
  for (const event of run.eventsAt(tick)) if (event.request === row) rows.push(["event", event.name]);
  return { title: run.requests[row].id, rows };
}

function timelineWords(view, spoilers) {
  const { run, tick } = view;
  const count = (where) => [...view.states.values()].filter((state) => state.where === where).length;
  return `Timeline of ${counted(spoilers ? run.requests.length : view.states.size, "request")} at tick ${tick}: ${count(RUNNING)} running, ${view.queue.total} waiting, ${view.finished.length} finished`;
}

/** Paints rows, marks and axis in the colours of the theme. */
class Brush {
  constructor(context, stage, pitch, rowHeight) {
    this.context = context;
    this.stage = stage;
    this.pitch = pitch;
    this.rowHeight = rowHeight;
    this.thick = Math.max(6, rowHeight - 7);
    this.hatch = {
      [HELD]: this.pattern("--wait-line"),
      [AWAY]: this.pattern("--pre"),
      idle: this.pattern("--line"),
    };
  }

  pattern(name) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 5;
    const context = tile.getContext("2d");
    context.strokeStyle = this.stage.color(name);
    context.lineWidth = 1.3;
    for (const shift of [-5, 0, 5]) {
      context.moveTo(shift, 5);
      context.lineTo(shift + 5, 0);
    }
    context.stroke();
    return this.context.createPattern(tile, "repeat");
  }

  row(run, row) {
    const top = row * this.rowHeight;
    for (let tick = 0, from = 0; tick < run.length; tick += 1) {
      const kind = cellKind(run, row, tick);
      if (tick + 1 < run.length && cellKind(run, row, tick + 1) === kind) continue;
      this.bar(kind, from * this.pitch, (tick + 1) * this.pitch, top);
      from = tick + 1;
    }
    for (const event of run.events) if (event.request === row) this.mark(event, top);
  }

  bar(kind, from, to, top) {
    if (!kind) return;
    const { context } = this;
    const middle = top + this.rowHeight / 2;
    const gap = this.pitch >= 3 ? 1 : 0;
    const width = Math.max(to - from - gap, 0.8);
    if (kind === HELD || kind === AWAY) {
      context.fillStyle = this.hatch[kind];
      context.fillRect(from, middle - 2.5, width, 5);
      return;
    }
    context.fillStyle = context.strokeStyle = this.stage.color(kind === WROTE ? "--gen" : "--comp");
    context.beginPath();
    if (kind === STALL) {
      context.lineWidth = 1;
      context.rect(from + 0.5, middle - this.thick / 2 + 0.5, Math.max(width - 1, 0.5), this.thick - 1);
      context.stroke();
    } else {
      context.roundRect(from, middle - this.thick / 2, width, this.thick, Math.min(2, width / 2));
      context.fill();
    }
  }

  mark(event, top) {
    const { context } = this;
    const x = event.tick * this.pitch;
    const middle = top + this.rowHeight / 2;
    if (event.name === "hit" || event.name === "loaded") this.hit(x, middle);
    if (event.name === "preempted") this.cross(x, middle);
    if (event.name === "refused") this.cross(x + 4, middle);
    const bad = event.name === "finished" && ENDS[FINISH_REASONS[event.number]];
    if (bad) this.cross(x + this.pitch + 4, middle);
    if (event.name === "finished" && !bad) {
      const right = x + this.pitch + 3;
      context.strokeStyle = this.stage.color("--gen-ink");
      context.lineWidth = 1.8;
      context.beginPath();
      context.moveTo(right, middle);
      context.lineTo(right + 2.5, middle + 3);
      context.lineTo(right + 7.5, middle - 3.5);
      context.stroke();
    }
  }

  /** A hit takes no time: a hatched cap at the start of the tick. */
  hit(x, middle) {
    const { context } = this;
    const width = Math.max(Math.min(this.pitch * 0.6, 10), 3);
    context.fillStyle = this.stage.color("--cach");
    context.fillRect(x, middle - this.thick / 2, width, this.thick);
    if (width < 5) return;
    context.lineWidth = 1;
    context.strokeStyle = this.stage.color("--cach-edge");
    context.strokeRect(x + 0.5, middle - this.thick / 2 + 0.5, width - 1, this.thick - 1);
    context.strokeStyle = this.stage.color("--hatch");
    context.lineWidth = 1.2;
    context.beginPath();
    for (let k = 2; k < width + this.thick; k += 4) {
      context.moveTo(x + Math.min(k, width), middle - this.thick / 2 + Math.max(0, k - width));
      context.lineTo(x + Math.max(0, k - this.thick), middle - this.thick / 2 + Math.min(k, this.thick));
    }
    context.stroke();
  }

  cross(x, middle) {
    const { context } = this;
    for (const [color, width] of [["--panel", 4], ["--pre", 2]]) {
      context.strokeStyle = this.stage.color(color);
      context.lineWidth = width;
      context.lineCap = "round";
      context.beginPath();
      context.moveTo(x - 3.5, middle - 3.5);
      context.lineTo(x + 3.5, middle + 3.5);
      context.moveTo(x + 3.5, middle - 3.5);
      context.lineTo(x - 3.5, middle + 3.5);
      context.stroke();
    }
    context.lineCap = "butt";
  }

  /** Ticks in which nothing ran, through all rows. */
  idle(run) {
    const height = run.requests.length * this.rowHeight;
    for (let tick = 0; tick < run.length; tick += 1) {
      if (!run.isIdle(tick)) continue;
      this.context.fillStyle = this.hatch.idle;
      this.context.fillRect(tick * this.pitch, 0, Math.max(this.pitch, 1), height);
    }
  }

  axis(run, width) {
    const { context } = this;
    const step = axisStep(this.pitch);
    context.font = `11px ${this.stage.font}`;
    context.fillStyle = this.stage.color("--soft");
    context.textBaseline = "top";
    for (let tick = 0; tick < run.length; tick += step) {
      const x = tick * this.pitch;
      if (x > width - 24) break;
      context.globalAlpha = 0.5;
      context.fillRect(Math.round(x), 0, 1, 5);
      context.globalAlpha = 1;
      context.fillText(String(tick), Math.round(x) + 4, 4);
    }
  }
}

/** Ticks between two numbers of the axis: 1, 2 or 5 times a power of ten, at least 48 pixels apart. */
function axisStep(pitch) {
  for (let power = 1; ; power *= 10) {
    for (const factor of [1, 2, 5]) if (factor * power * pitch >= 48) return factor * power;
  }
}
