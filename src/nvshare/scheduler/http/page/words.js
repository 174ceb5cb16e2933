// Figures for people. Pure.

const GIB = 2 ** 30;
const MIB = 2 ** 20;

export function size(bytes) {
  return Math.round(bytes / MIB) >= 1024 ? `${(bytes / GIB).toFixed(bytes >= 100 * GIB ? 0 : 1)} GiB` : `${Math.round(bytes / MIB)} MiB`;
}

export function span(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

// At what rate a move went, in brackets; nothing if it took no time.
export function rate({ bytes, from, to }) {
  return to > from ? ` (${(bytes / (to - from) / 1e9).toFixed(1)} GB/s)` : "";
}

export function clock(seconds) {
  const time = new Date(seconds * 1000);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round(100 * part / whole)} %` : "–";
}

// A line with GPUs called by the first part of their UUID, as people do.
export function short(line) {
  return line.replace(/\b((?:GPU|MIG)-[0-9a-f]{8})-[0-9a-f-]{27}/g, "$1…");
}

// A GPU by index and model, or by the first part of its UUID if NVML does not know it.
export function gpuTitle(gpu) {
  if (gpu.index === null) return gpu.uuid.slice(0, 12);
  return [`GPU ${gpu.index}`, gpu.name.replace(/^NVIDIA /, "")].filter(Boolean).join(" · ");
}

// Why one client waits, beyond what `queueReason` says of all; the scheduler's own words are `nvsharectl story`.
export function obstacle(client, gpu) {
  const fits = client.need_bytes <= gpu.available_memory;
  if (fits && client.together.length > 0) return "would fit, and waits until the other GPUs are available too";
  if (fits && gpu.reserved_for !== null && gpu.reserved_for !== client.id) {
    const first = gpu.clients.find((other) => other.id === gpu.reserved_for);
    return `would fit, but ${first ? first.name : gpu.reserved_for} is ahead and may not be passed`;
  }
  return `needs ${size(client.need_bytes)}`;
}

// How busy NVML says a GPU is, and how much of the time clients account for; nothing if NVML does not say.
export function utilization({ utilization_percent: used, accounted_percent: accounted }) {
  return used === null ? "" : `busy ${Math.round(used)} % (clients ${Math.round(accounted)} %)`;
}

// What a client had of the GPU's time, and what it is due by its weight if it competes by weight.
export function ownUse({ gpu_percent: had, due_percent: due }) {
  return due === null ? `${Math.round(had)} %` : `${Math.round(had)} % of ${Math.round(due)} %`;
}

// What its group had, if it has a core limit or several programs here.
export function groupUse(client, gpu) {
  const had = `${Math.round(client.group_gpu_percent)} %`;
  if (client.core_limit_percent) return `limit: ${had} of ${client.core_limit_percent} %`;
  const programs = gpu.clients.filter((other) => other.group === client.group).length;
  return programs > 1 ? `all ${programs}: ${had}` : "";
}

// Both, in words.
export function useExplained(client, gpu) {
  const due = client.due_percent === null ? "" : `; its weight of ${client.weight} makes ${Math.round(client.due_percent)} % its share`;
  const group = groupUse(client, gpu) ? `; all programs of ${client.label} had ${Math.round(client.group_gpu_percent)} %` : "";
  const others = gpu.clients.filter((other) => other.uid !== null && other.uid === client.uid && other.group !== client.group);
  const user = others.length > 0 ? `; all programs of its user had ${Math.round(client.user_gpu_percent)} %` : "";
  const limit = client.core_limit_percent ? `, and may have ${client.core_limit_percent} %` : "";
  return `had ${Math.round(client.gpu_percent)} % of the GPU's time in the last 10 s${due}${group}${limit}${user}`;
}

// Why a client that has work is held back; nothing if it is not.
export function enough(client) {
  if (client.held_back_by === null) return "";
  if (client.held_back_by === "weight") return `is ahead of its weight of ${client.weight} · `;
  return `is over its core limit of ${client.core_limit_percent} % · `;
}

// By when a waiting client will probably start.
export function expectedStart({ expected_start_seconds: start }) {
  return start === null ? "" : `probably within ${span(start)}`;
}

// Why clients of a GPU wait.
export function queueReason(gpu, isSettling) {
  if (isSettling) return "the scheduler has just started and waits for earlier programs to claim their locks";
  const holders = gpu.clients.filter((client) => client.is_running).map((client) => `${client.name} ${client.id}`);
  const beside = holders.length > 3 ? `${holders.length} programs` : holders.join(", ") || "nobody";
  return `${size(gpu.available_memory)} free beside ${beside}`;
}
