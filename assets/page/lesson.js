// Tells a screen reader each new step or question, and keeps focus and sight when a button has gone.
const BAND = ".st-key-lesson_band, .st-key-predict_card";
const NEXT = ".st-key-lesson_next button";
/** By then Streamlit has taken away what belongs to the step before. */
const SETTLED_MS = 300;

export default function ({ data, parentElement }) {
  let node = parentElement.querySelector("[role=status]");
  if (!node) {
    node = document.createElement("div");
    node.setAttribute("role", "status");
    parentElement.append(node);
  }
  if (node.textContent === data.text) return;
  const isFirst = node.textContent === "";
  node.textContent = data.text;
  if (isFirst) return;
  setTimeout(keepHold, SETTLED_MS);
}

function keepHold() {
  if (document.activeElement === document.body) (document.querySelector(NEXT) ?? stage())?.focus({ preventScroll: true });
  const band = document.querySelector(BAND);
  if (band && band.getBoundingClientRect().top < 0) band.scrollIntoView({ block: "start" });
}

/** The stage of the playground, from where the arrow keys lead on. */
function stage() {
  for (const node of document.querySelectorAll(".st-key-stage, .st-key-stage *")) {
    const found = node.shadowRoot?.querySelector("[data-state-hash]");
    if (found) return found;
  }
  return null;
}
