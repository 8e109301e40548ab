// Buttons of the page that are about the instant on the stage. Python knows it only when the stage has stopped and
// said so: a press while it moves stops it first, and goes through after that.

const ABOUT_NOW = ".st-key-ask_what_if button, .st-key-predict button";

function standStillFirst(stage, signal) {
  const hold = (event) => {
    const button = event.target.closest?.(ABOUT_NOW);
    if (!button || !stage.isMoving) return;
    event.preventDefault();
    event.stopPropagation();
    stage.halt();
    stage.voice.tellBefore(button);
  };
  document.addEventListener("click", hold, { signal, capture: true });
}
