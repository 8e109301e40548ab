// Tells a screen reader each new step, and keeps focus and sight on the lesson when a button has gone.
const BAND = ".st-key-lesson_band";
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
  if (document.activeElement === document.body) document.querySelector(NEXT)?.focus({ preventScroll: true });
  const band = document.querySelector(BAND);
  if (band && band.getBoundingClientRect().top < 0) band.scrollIntoView({ block: "start" });
}
