// What is no stage but goes with linked ones, as the tiles of many replicas: it hears where they stand, and may drive them.

/** Tells everybody on the page where the stages of a link stand. */
function tellBystanders(stage) {
  if (!stage.link) return;
  window.dispatchEvent(new CustomEvent("tickscope-tick", { detail: { link: stage.link, tick: stage.tick, end: stage.end, playing: stage.isMoving } }));
}

/** Lets a bystander play, pause or step the stages of its link; the first of them does it for all. */
function hearBystanders(stage, signal) {
  const obey = ({ detail }) => {
    if (!stage.link || detail.link !== stage.link || [...LINKED.get(stage.link)][0] !== stage) return;
    if (detail.act === "toggle") stage.toggle();
    else if (detail.act === "step") stage.step(detail.by);
  };
  window.addEventListener("tickscope-drive", obey, { signal });
}
