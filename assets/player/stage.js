// The stage: holds the run, the tick and the selection, and lets every panel draw the same instant.

/** Stages with the same link name move together; only the one that is driven tells Python. */
const LINKED = new Map();

const STEP_EMIT_MS = 90;
/** After a command that came too late Python has to hear where the stage really is. */
const CORRECTION_MS = 400;
const NO_RUN = {
  ticks: 0, blocks: 0, block_size: 1, host_blocks: 0, unit: true, title: "", backend: {}, settings: [[0, { max_num_seqs: 1 }]],
  requests: [], where: [], scheduled: [], again: [], hit: [], low: [], tiers: [], slice: [], saved: [], class: [], preemptions: [],
  computed: [], waited: [], queue: "", running: "", batch: "", tables: [], promised: "", host_used: "", published: "",
  start: "", length: "", wall: "", events: "", kinds: [], lines: [], told: "",
};

class Stage {
  constructor(parent) {
    this.parent = parent;
    this.selected = -1;
    this.tick = 0;
    this.voice = new Voice(this);
    this.options = { status: "recorded", clock: "virtual", spoilers: true, why: true, computing: false };
    this.run = new Run(NO_RUN);
    this.colors = new Map();
    this.playback = new Playback(() => this.advance());
    this.build();
    this.listen();
  }

  // --- making -------------------------------------------------------------------------------------------------

  build() {
    this.root = el("div", { class: "stage", tabindex: "0", role: "region", "data-playing": "false" });
    this.tip = new Tip(this.root);
    this.motion = new Motion(this.root);
    this.help = new Help(this);
    this.teach = new Teach(this);
    this.transport = new Transport(this);
    this.scrubber = new Scrubber(this);
    this.waiting = new WaitingCards(this);
    this.lanes = new Lanes(this);
    this.finished = new FinishedCards(this);
    this.blocks = new Blocks(this);
    this.host = new HostPool(this);
    this.timeline = new Timeline(this);
    this.narrator = new Narrator(this);
    this.tour = new Tour(this);
    this.panels = [this.transport, this.scrubber, this.lanes, this.waiting, this.finished, this.blocks, this.host, this.timeline, this.narrator];
    const board = el("div", { class: "board" }, ...[this.waiting, this.lanes, this.finished, this.blocks, this.host, this.timeline].map((panel) => panel.node));
    this.message = el("p", { class: "message", role: "alert", hidden: "" });
    const inner = el("div", { class: "inner" }, this.message, this.transport.node, this.scrubber.node, board, this.narrator.node);
    this.root.prepend(inner);
    this.root.append(this.help.node, this.tour.node);
    this.root.prepend(this.tour.offer);
    this.parent.append(this.root);
    this.meanings = new Meanings(this);
    this.transport.showPlaying(false);
  }

  listen() {
    this.abort = new AbortController();
    const { signal } = this.abort;
    new Keys(this).listen(signal);
    document.addEventListener("visibilitychange", () => document.hidden && this.pause(), { signal });
    this.motion.calm.addEventListener("change", () => this.showCalm(), { signal });
    // Names are measured and numbers painted: both again once the page's font is there.
    document.fonts.addEventListener("loadingdone", () => this.redraw(), { signal });
    this.resize = new ResizeObserver(() => this.resized());
    this.resize.observe(this.root);
    this.teach.listen(signal);
    hearBystanders(this, signal);
    standStillFirst(this, signal);
    this.showCalm();
  }

  showCalm() {
    setAttr(this.root, "data-calm", this.motion.allowed ? null : "");
  }

  destroy() {
    if (this.playback.playing) this.halt();
    this.voice.fallSilent();
    this.abort.abort();
    this.resize.disconnect();
    this.teach.destroy();
    this.join(null);
    this.root.remove();
  }

  // --- data from Python ---------------------------------------------------------------------------------------

  /** Takes what Python sent: new data, options, and a command if its number has grown. */
  update(data, emit) {
    this.emit = emit;
    const isFirst = this.command === undefined;
    const options = { ...this.options, ...data.options };
    this.options = options;
    setAttr(this.root, "aria-label", options.label);
    setAttr(this.root, "data-twin", options.link ? "" : null);
    for (const panel of this.root.querySelectorAll(".panel")) setAttr(panel, "data-lit", options.panel && panel.classList.contains(options.panel) ? "" : null);
    this.join(options.link);
    this.teach.update(options.teach ?? null, options.without ?? []);
    this.load(data.run);
    const isNew = isFirst || data.command.id > this.command;
    const isOvertaken = isNew && !isFirst && this.voice.isOvertaken(data.command);
    if (isNew && !isOvertaken) this.obey(data.command, isFirst);
    this.command = Math.max(this.command ?? data.command.id, data.command.id);
    this.retheme();
    this.layout();
    this.show(this.tick, { still: true });
    this.tour.update(options);
    this.meanings.update(options.terms ?? {});
    if (isOvertaken) this.voice.tell(CORRECTION_MS);
  }

  /** Takes a run, unless it is the one that stands: Python sends it again whenever an option changes. */
  load(run) {
    if (run?.digest !== undefined && run.digest === this.digest) return;
    this.digest = run?.digest;
    const problem = this.problem(run);
    const id = this.run.requests[this.selected]?.id;
    this.run = new Run(problem ? NO_RUN : run);
    this.selected = this.run.requests.findIndex((facts) => facts.id === id);
    for (const cards of [this.waiting, this.finished]) cards.reset();
    this.host.squares.clear();
    this.others((stage) => stage.redraw());
    this.lanes.budget.segments.clear();
    this.tip.hide();
    this.message.hidden = !problem;
    setText(this.message, problem);
    setAttr(this.root, "data-broken", problem ? "" : null);
  }

  problem(run) {
    if (run?.v !== DATA_VERSION) return `The stage reads data of version ${DATA_VERSION}, and was sent version ${run?.v}. Reload the page.`;
    if (run.message) return run.message;
    try {
      new Run(run);
    } catch (error) {
      return `The stage cannot read this run: ${error.message}`;
    }
    return "";
  }

  obey(command, isFirst) {
    if (command.tick !== null && command.tick !== undefined) this.tick = command.tick;
    if (command.selected !== null || !isFirst) this.selected = this.run.requests.findIndex((facts) => facts.id === command.selected);
    if (command.play) this.play();
    else if (!isFirst) this.halt();
  }

  // --- time ---------------------------------------------------------------------------------------------------

  get lastTick() {
    return Math.max(this.run.length - 1, 0);
  }

  /** Where the playhead can go: to the end of the longest linked run. A shorter one then shows its last tick. */
  get end() {
    return Math.max(this.lastTick, ...this.partners.map((stage) => stage.lastTick));
  }

  /** The last tick that the scales have room for: past the end where more is to come than may be seen yet. */
  get room() {
    return Math.max(this.end, (this.options.room ?? 0) - 1);
  }

  /** Whether the common playhead moves, whichever stage drives it. */
  get isMoving() {
    return this.playback.playing || this.partners.some((stage) => stage.playback.playing);
  }

  /** The next tick of playback. While a live run computes, its end is only a pause for breath. */
  advance() {
    if (this.tick < this.end) this.show(this.tick + 1);
    else if (!this.options.computing) this.pause();
    if (this.tick === this.end && !this.options.computing) this.pause();
  }

  toggle() {
    if (this.isMoving) this.pause();
    else this.play();
  }

  play() {
    if (this.isMoving || document.hidden) return;
    if (this.tick >= this.end && !this.options.computing) this.show(0, { still: true });
    this.playback.play();
    this.showPlaying(true);
    this.others((stage) => stage.showPlaying(true));
  }

  pause() {
    if (!this.isMoving) return;
    this.halt();
    this.voice.tell();
  }

  halt() {
    this.playback.pause();
    this.showPlaying(false);
    this.others((stage) => {
      stage.playback.pause();
      stage.showPlaying(false);
    });
  }

  showPlaying(playing) {
    setAttr(this.root, "data-playing", String(playing));
    this.transport.showPlaying(playing);
    tellBystanders(this);
  }

  setSpeed(speed) {
    this.playback.speed = speed;
    this.transport.showSpeed(speed);
    this.others((stage) => {
      stage.playback.speed = speed;
      stage.transport.showSpeed(speed);
    });
  }

  seek(tick) {
    this.halt();
    this.show(tick, { still: true });
    this.narrator.announce(this.view);
    this.voice.tell();
  }

  step(by) {
    this.halt();
    this.show(this.tick + by);
    this.narrator.announce(this.view);
    this.voice.tell(STEP_EMIT_MS);
  }

  scrub(tick) {
    this.halt();
    this.show(tick, { still: true });
  }

  endScrub() {
    this.narrator.announce(this.view);
    this.voice.tell();
  }

  jump(direction) {
    const { kind } = this.transport;
    const tick = direction > 0 ? nextTick(this.run, kind, this.tick) : previousTick(this.run, kind, this.tick);
    if (tick >= 0) this.seek(tick);
    // Whether there is one further on is not to be told: as far as may be seen.
    else if (direction > 0 && !this.options.spoilers) this.seek(this.end);
    else this.narrator.say(`No ${direction > 0 ? "further" : "earlier"} ${JUMPS[kind].label}. Choose another kind of event in the menu.`);
  }

  // --- drawing ------------------------------------------------------------------------------------------------

  /** Draws a tick; `still` leaves out the flights. */
  show(tick, { still = false, isEcho = false } = {}) {
    const target = Math.max(0, Math.min(Math.round(Number(tick)) || 0, this.end));
    const shown = Math.min(target, this.lastTick);
    const before = this.view;
    const isStep = !still && before && Math.abs(shown - before.tick) === 1;
    const view = viewAt(this.run, shown);
    const places = isStep ? this.motion.places(movers(before, view), (request) => this.find(request)) : null;
    this.tick = target;
    this.view = view;
    setAttr(this.root, "data-glide", isStep && this.playback.speed <= 2 ? "" : null);
    for (const panel of this.panels) panel.draw(view);
    setAttr(this.root, "data-tick", view.tick);
    setAttr(this.root, "data-selected", this.run.requests[this.selected]?.id);
    setAttr(this.root, "data-state-hash", view.hash);
    this.tip.refresh();
    if (places?.size) this.fly(places, view);
    if (isEcho) return;
    this.others((stage) => stage.show(target, { still, isEcho: true }));
    tellBystanders(this);
  }

  fly(places, view) {
    const pace = this.playback.playing ? Math.min(MOVE_MS, this.playback.interval) : MOVE_MS;
    this.motion.fly(places, (request) => this.find(request), (request) => this.run.requests[request].id, (request) => newsOf(view, request), pace);
  }

  /** The element that stands for a request: its card or its lane. */
  find(request) {
    const where = this.view.states.get(request)?.where;
    if (where === FINISHED) return this.finished.find(request);
    return where === RUNNING ? this.lanes.find(request) : this.waiting.find(request);
  }

  layout() {
    if (!this.root.clientWidth) return;
    this.laidOut = this.root.clientWidth;
    for (const panel of [this.lanes, this.scrubber, this.blocks, this.host, this.timeline]) panel.layout();
  }

  resized() {
    if (this.root.clientWidth !== this.laidOut) this.redraw();
  }

  redraw() {
    if (!this.view) return;
    this.layout();
    this.show(this.tick, { still: true, isEcho: true });
  }

  /** Colours as they are now, for what is painted on canvas. */
  color(name) {
    if (!this.colors.has(name)) this.colors.set(name, resolveColor(this.root, name));
    return this.colors.get(name);
  }

  get font() {
    return getComputedStyle(this.root).fontFamily;
  }

  retheme() {
    this.colors.clear();
    setAttr(this.root, "data-theme", isDark(this.root) ? "dark" : "light");
  }

  // --- selection ----------------------------------------------------------------------------------------------

  toggleSelection(request) {
    this.select(this.selected === request ? -1 : request);
  }

  select(request) {
    if (request === this.selected) return;
    this.showSelection(this.run.requests[request]?.id ?? null);
    this.others((stage) => stage.showSelection(this.run.requests[request]?.id ?? null));
    this.voice.tell();
  }

  showSelection(id) {
    this.selected = this.run.requests.findIndex((facts) => facts.id === id);
    this.show(this.tick, { still: true, isEcho: true });
  }

  /** How the selection concerns a request: "on", "off" or nothing. */
  spot(request) {
    if (this.selected < 0) return null;
    return request === this.selected ? "on" : "off";
  }

  // --- focus, wishes and linked stages ------------------------------------------------------------------------

  focused() {
    return this.root.getRootNode().activeElement;
  }

  /** A wish that only the server can fulfil. */
  act(name, request = -1, about = {}) {
    this.pause();
    this.voice.act({ name, tick: this.tick, request: this.run.requests[request]?.id ?? null, ...about });
  }

  join(link) {
    if (this.link === link) return;
    LINKED.get(this.link)?.delete(this);
    this.others((stage) => stage.redraw());
    this.link = link;
    if (!link) return;
    if (!LINKED.has(link)) LINKED.set(link, new Set());
    LINKED.get(link).add(this);
    for (const { playback } of this.partners) {
      this.playback.speed = playback.speed;
      this.transport.showSpeed(playback.speed);
    }
  }

  /** The other stages of the same link. */
  get partners() {
    return [...(LINKED.get(this.link) ?? [])].filter((stage) => stage !== this);
  }

  others(act) {
    this.partners.forEach(act);
  }
}

/** Requests that change their place between two instants. */
function movers(before, view) {
  const moved = [];
  for (const [request, state] of view.states) {
    const was = before.states.get(request);
    if (was && placeOf(was) !== placeOf(state)) moved.push(request);
  }
  return moved;
}

function placeOf(state) {
  if (state.where === RUNNING) return RUNNING;
  return state.where === FINISHED ? FINISHED : WAITING;
}
