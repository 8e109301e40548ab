// A QR code, dark on white in every theme, with the quiet margin that scanners need; the address under it.
const SVG = "http://www.w3.org/2000/svg";
const QUIET = 4;

export default function ({ data, parentElement }) {
  let image = parentElement.querySelector("svg");
  if (!image) {
    parentElement.append(document.createElement("p"));
    image = document.createElementNS(SVG, "svg");
    image.append(document.createElementNS(SVG, "path"));
    image.setAttribute("role", "img");
    image.setAttribute("shape-rendering", "crispEdges");
    parentElement.prepend(image);
  }
  const side = data.side + 2 * QUIET;
  image.setAttribute("viewBox", `${-QUIET} ${-QUIET} ${side} ${side}`);
  image.setAttribute("aria-label", "QR code of the address below");
  image.firstChild.setAttribute("d", data.path);
  parentElement.querySelector("p").textContent = data.address;
}
