// Writes what was chosen to the address bar, without an entry in the history. The tick is the stage's to write,
// so the one that stands there is kept.
const KEPT = ["tick", "embed", "embed_options"];

export default function ({ data }) {
  if (!data || !window.location.pathname.endsWith(data.path)) return;
  const now = new URLSearchParams(window.location.search);
  const wanted = new URLSearchParams(data.query);
  for (const name of KEPT) {
    if (!now.has(name) || wanted.has(name)) continue;
    for (const value of now.getAll(name)) wanted.append(name, value);
  }
  const query = wanted.toString();
  if (query === now.toString()) return;
  const hash = window.location.hash;
  window.history.replaceState(window.history.state, "", window.location.pathname + (query ? `?${query}` : "") + hash);
}
