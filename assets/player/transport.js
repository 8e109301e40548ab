// Buttons, speed, jump menu, legend and clock.

const ICONS = {
  first: "M3.5 3v10M12.5 3.2v9.6L5.8 8z",
  back: "M11 3.2v9.6L4.3 8z",
  play: "M4.5 2.6v10.8L13.4 8z",
  pause: "M4.6 3v10M11.4 3v10",
  forward: "M5 3.2v9.6L11.7 8z",
  last: "M12.5 3v10M3.5 3.2v9.6L10.2 8z",
};

const LEGEND = [
  ["cached", "cached"],
  ["computed", "computed"],
  ["chunk", "this tick"],
  ["todo", "to do"],
  ["generated", "generated"],
  ["preempted", "preempted"],
];

class Transport {
  constructor(stage) {
    this.stage = stage;
    this.kind = "decision";
    this.buttons = {
      first: this.button("first", "First tick (Home)", () => stage.seek(0)),
      back: this.button("back", "Back one tick (left arrow)", () => stage.step(-1)),
      play: this.button("play", "Play (space)", () => stage.toggle()),
      forward: this.button("forward", "Forward one tick (right arrow)", () => stage.step(1)),
      last: this.button("last", "Last tick (End)", () => stage.seek(stage.end)),
    };
    this.makeJump();
    this.makeSpeed();
    this.makeClock();
    this.group = el("div", { class: "buttons", role: "group", "aria-label": "Playback" }, ...Object.values(this.buttons));
    this.lowerName = el("span");
    this.lower = el("li", { hidden: "" }, el("i", { class: "key loaded" }), this.lowerName);
    this.help = el("button", { class: "round quiet", type: "button", "aria-label": "Help (question mark)", text: "?", click: () => stage.help.open() });
    this.node = el("div", { class: "transport" }, this.group, this.jump, this.speed, legend(this.lower), this.clock, this.help);
  }

  button(name, label, act) {
    const button = el("button", { class: `round ${name}`, type: "button", "aria-label": label, click: act });
    button.append(icon(ICONS[name]));
    return button;
  }

  makeJump() {
    this.go = el("button", { class: "go", type: "button", click: () => this.stage.jump(1) });
    this.kinds = el("select", { "aria-label": "Kind of event to jump to", change: () => this.choose(this.kinds.value) });
    for (const [kind, { label }] of Object.entries(JUMPS)) this.kinds.append(el("option", { value: kind, text: label }));
    this.jump = el("div", { class: "jump" }, this.go, el("span", { class: "pick" }, this.kinds));
    this.choose("decision");
  }

  choose(kind) {
    this.kind = kind;
    setText(this.go, `next ${JUMPS[kind].label}`);
    if (this.stage.view) this.drawJump(this.stage.view);
  }

  makeSpeed() {
    this.speeds = el("select", { "aria-label": "Speed", change: () => this.stage.setSpeed(Number(this.speeds.value)) });
    for (const speed of SPEEDS) this.speeds.append(el("option", { value: String(speed), text: `${speed}×` }));
    this.speeds.value = "1";
    this.speed = el("span", { class: "speed" }, this.speeds);
  }

  makeClock() {
    this.now = el("b");
    this.total = el("span");
    this.source = el("small");
    this.stop = el("button", { class: "stop", type: "button", text: "Stop", hidden: "", click: () => this.stage.act("stop") });
    const line = el("div", { class: "tick-line" }, this.now, this.total);
    this.clock = el("div", { class: "clock" }, el("div", { class: "clock-text" }, line, this.source), this.stop);
  }

  showSpeed(speed) {
    this.speeds.value = String(speed);
  }

  showPlaying(playing) {
    const { play } = this.buttons;
    play.replaceChildren(icon(playing ? ICONS.pause : ICONS.play));
    play.classList.toggle("paused", !playing);
    setAttr(play, "aria-label", playing ? "Pause (space)" : "Play (space)");
  }

  draw(view) {
    const { run, tick } = view;
    setText(this.now, `tick ${tick}`);
    setText(this.total, ` of ${Math.max(run.length, this.stage.options.room ?? 0, 1) - 1}`);
    const isOver = this.stage.tick > tick;
    setText(this.source, isOver ? `ended · the other is at tick ${this.stage.tick}` : clockText(this.stage.options, view));
    setAttr(this.source, "data-status", this.stage.options.computing ? "computing" : this.stage.options.status);
    this.stop.hidden = !this.stage.options.computing;
    this.lower.hidden = !run.lowerTier;
    setAttr(this.lower.parentElement, "data-lower", run.lowerTier ? "" : null);
    setText(this.lowerName, run.lowerTier);
    this.drawJump(view);
  }

  drawJump({ run, tick }) {
    const found = nextTick(run, this.kind, tick) >= 0;
    setAttr(this.go, "aria-disabled", found ? null : "true");
    setAttr(this.go, "title", found ? null : `no further ${JUMPS[this.kind].label} after tick ${tick}`);
  }
}

function legend(lower) {
  const items = LEGEND.map(([name, text]) => el("li", {}, el("i", { class: `key ${name}` }), text));
  items.splice(1, 0, lower);
  return el("ul", { class: "legend", "aria-label": "Legend" }, ...items);
}

/** Says which clock it is: measured time and virtual time are never mixed. */
function clockText(options, { run, tick }) {
  const { backend } = run.data;
  if (options.computing) return `computing tick ${run.length}`;
  const source = { recorded: "recorded", live: "live", synthetic: "synthetic tokens" }[options.status] ?? options.status;
  if (run.length === 0) return source;
  if (options.clock === "measured") return `${source} · ${seconds(run.wallSum[tick])} measured${backend.device ? `, ${backend.device}` : ""}`;
  const end = run.start[tick] + run.span[tick];
  return run.data.unit ? `${source} · virtual clock, 1 s a tick` : `${source} · ${seconds(end)} virtual time`;
}
