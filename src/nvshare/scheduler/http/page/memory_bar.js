// The memory of a GPU as a bar: what is on the card of each program, in the program's colour.
//
//     running programs | what no switch frees, of each program (paler) | of all others | of programs that do not share

import { setText } from "./dom.js";
import { size } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

export function colourClass(number) {
  return `p${number % 10}`;
}

// A drawing: its parts have sizes, but no place in the layout that others could be moved by.
export function makeBar(values) {
  const bar = document.createElementNS(SVG, "svg");
  bar.setAttribute("class", "bar");
  for (const [name, value] of Object.entries(values)) bar.setAttribute(name, value);
  return bar;
}

// `colourOf` says which colour a client has.
export function showBar(bar, gpu, colourOf) {
  const whole = gpu.total_memory || 1;
  const parts = partsOf(gpu, colourOf);
  while (bar.children.length < parts.length + 1) bar.append(makePart());
  while (bar.children.length > parts.length + 1) bar.lastChild.remove();
  let at = 0;
  parts.forEach(({ className, text, bytes }, number) => {
    const share = 100 * bytes / whole;
    setPart(bar.children[number], { class: className, x: `${at}%`, width: `${share}%` }, `${text} ${size(bytes)}`);
    at += share;
  });
  const safe = { class: "safe", x: `${100 * gpu.safe_limit_bytes / whole}%`, width: "2" };
  setPart(bar.lastChild, safe, `safe limit ${size(gpu.safe_limit_bytes)}`);
}

function makePart() {
  const part = document.createElementNS(SVG, "rect");
  part.setAttribute("height", "100%");
  part.append(document.createElementNS(SVG, "title"));
  return part;
}

function setPart(part, values, text) {
  for (const [name, value] of Object.entries(values)) part.setAttribute(name, value);
  setText(part.firstChild, text);
}

function partsOf(gpu, colourOf) {
  const own = (client, kind) => `${colourClass(colourOf(client.id))} ${kind}`;
  const runs = gpu.clients.filter((client) => client.is_running && client.swappable_bytes);
  const fixed = gpu.clients.filter((client) => client.unswappable_bytes);
  const rest = gpu.unswappable_memory_bytes - fixed.reduce((sum, client) => sum + client.unswappable_bytes, 0);
  return [
    ...runs.map((client) => ({ className: own(client, "run"), text: client.name, bytes: client.swappable_bytes })),
    ...fixed.map((client) => ({ className: own(client, "fixed"), text: `${client.name}, unswappable`, bytes: client.unswappable_bytes })),
    { className: "contexts", text: "contexts", bytes: Math.max(0, rest) },
    { className: "foreign", text: "programs that do not share", bytes: gpu.foreign_memory_bytes },
  ];
}
