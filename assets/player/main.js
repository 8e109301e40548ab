// What Streamlit calls: on mount, and again whenever data or theme change.

/** Differs for each version of this script, so that a stage of an older one is not kept. */
const BUILD = "{{build}}";

export default function mount({ data, parentElement, setStateValue, setTriggerValue }) {
  if (parentElement.tickscope?.build !== BUILD) {
    parentElement.tickscope?.stage.destroy();
    parentElement.tickscope = { build: BUILD, stage: new Stage(parentElement), turn: 0 };
  }
  const held = parentElement.tickscope;
  const turn = (held.turn += 1);
  held.stage.update(data, {
    state: (view) => setStateValue("view", view),
    action: (action) => setTriggerValue("action", action),
  });
  // Streamlit may clean up an earlier call after a later one: only the latest owns the stage.
  return () => {
    if (held.turn !== turn) return;
    held.stage.destroy();
    if (parentElement.tickscope === held) delete parentElement.tickscope;
  };
}
