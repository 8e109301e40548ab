// Writes what was chosen to the address bar, without an entry in the history. The tick is the stage's to write, except
// where the page has just sent the stage to one.
const FOREIGN = ["embed", "embed_options"];

export default function ({ data, parentElement }) {
  if (!data || !window.location.pathname.endsWith(data.path)) return;
  const now = new URLSearchParams(window.location.search);
  const wanted = new URLSearchParams(data.query);
  const sent = parentElement.tickscopeCommand !== data.command;
  parentElement.tickscopeCommand = data.command;
  const tick = sent ? data.tick : Number(now.get("tick"));
  if (tick > 0) wanted.set("tick", String(tick));
  for (const name of FOREIGN) for (const value of now.getAll(name)) wanted.append(name, value);
  const query = wanted.toString();
  if (query === now.toString()) return;
  const { pathname, hash } = window.location;
  window.history.replaceState(window.history.state, "", pathname + (query ? `?${query}` : "") + hash);
}
