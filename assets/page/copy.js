// A button that puts a text on the clipboard and says whether it got there.
const SAID_FOR = 4000;

async function copied(text, root) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page that does not come by https or from this machine has no clipboard; the old way still works there.
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.style.cssText = "position:fixed;opacity:0";
  root.append(area);
  area.select();
  const worked = document.execCommand("copy");
  area.remove();
  return worked;
}

export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  const said = parentElement.querySelector(".said");
  if (!button || !data) return;
  button.onclick = async () => {
    const worked = await copied(data.text, parentElement.querySelector(".copy"));
    button.focus();
    said.textContent = worked ? "Copied." : data.failed;
    clearTimeout(parentElement.tickscopeSaid);
    parentElement.tickscopeSaid = setTimeout(() => { said.textContent = ""; }, SAID_FOR);
  };
}
