// A line for each GPU, before the details, if there are several; a click leads to the details.

import { element, setLine, setOrder, setText } from "./dom.js";
import { makeBar, showBar } from "./memory_bar.js";
import { gpuTitle, size } from "./words.js";

const lines = new Map();

export function showOverview(list, gpus, colourOf) {
  list.hidden = gpus.length < 2;
  if (list.hidden) return;
  setOrder(list, gpus.map((gpu) => (lines.get(gpu.uuid) ?? addLine(gpu.uuid)).item));
  for (const gpu of gpus) {
    const line = lines.get(gpu.uuid);
    setLine(line.title, gpuTitle(gpu));
    setText(line.counts, `${gpu.running} running, ${gpu.waiting} waiting`);
    showBar(line.bar, gpu, colourOf);
    const used = gpu.running_memory_usage + gpu.unswappable_memory_bytes + gpu.foreign_memory_bytes;
    setText(line.amount, `${size(used)} of ${size(gpu.total_memory)}`);
  }
}

function addLine(uuid) {
  const line = {
    title: element("a", { href: `#${uuid}` }),
    counts: element("span", { className: "counts" }),
    bar: makeBar({ "aria-hidden": "true" }),
    amount: element("span", { className: "amount" }),
  };
  line.item = element("li", {}, line.title, line.counts, line.bar, line.amount);
  lines.set(uuid, line);
  return line;
}
