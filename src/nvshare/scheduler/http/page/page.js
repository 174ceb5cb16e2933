// The page itself: listens, keeps the model, and shows it. Names from outside only ever become text, never markup.

import { Model } from "./model.js";
import { at, draw } from "./lanes.js";
import { clock, gpuTitle, obstacle, percent, queueReason, short, size, span } from "./words.js";

const FRAME_MS = 250;
const MAX_ROWS = 200;
const STATES = ["running", "dropping", "waiting", "blocked", "paused", "silent", "unscheduled", "idle"];
const model = new Model();
const cards = new Map();
const view = { seconds: 60, pausedAt: null, isConnected: false, offset: 0, shown: -1, source: null };

const byId = (id) => document.getElementById(id);

function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

function now() {
  return view.pausedAt ?? view.offset + performance.now() / 1000;
}

// Listening.

function listen() {
  const source = new EventSource("/api/v1/events");
  view.source = source;
  source.addEventListener("steps", (message) => model.takeSteps(JSON.parse(message.data)));
  source.addEventListener("status", (message) => {
    model.takeStatus(JSON.parse(message.data));
    // A message can come late, never early: the largest difference is the truest.
    view.offset = Math.max(view.offset, model.status.time - performance.now() / 1000);
  });
  source.onopen = () => { view.isConnected = true; };
  source.onerror = () => {
    view.isConnected = false;
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (view.source === source) listen(); }, 2000);
  };
}

// Showing.

function show() {
  showHeadline();
  if (!model.status) return;
  const isNews = view.shown !== model.version;
  for (const gpu of inOrder(model.status.gpus)) {
    const card = cards.get(gpu.uuid) ?? addCard(gpu);
    if (isNews) showCard(card, gpu);
    showTurn(card, gpu);
    const more = draw(card.canvas, model.lanes.get(gpu.uuid) ?? new Map(), now(), view.seconds);
    card.more.textContent = more ? `${more} older programs are not drawn` : "";
  }
  if (isNews) {
    showOverview();
    showLog();
    view.shown = model.version;
  }
}

// By NVML's index; those that NVML does not know come last, in the order in which they were seen.
function inOrder(gpus) {
  return [...gpus].sort((a, b) => (a.index ?? Infinity) - (b.index ?? Infinity) || 0);
}

// A line for each GPU, if there are several; a click leads to the details.
function showOverview() {
  const gpus = inOrder(model.status.gpus);
  const lines = gpus.map((gpu) => element(
    "li", {},
    element("a", { href: `#${gpu.uuid}`, textContent: gpuTitle(gpu) }),
    element("span", { textContent: `${gpu.running} running, ${gpu.waiting} waiting` }),
    element("span", { textContent: `${size(gpu.running_memory_usage + gpu.unswappable_memory_bytes + gpu.foreign_memory_bytes)} of ${size(gpu.total_memory)}` }),
  ));
  byId("overview").hidden = gpus.length < 2;
  byId("overview").replaceChildren(...lines);
}

function showTitle() {
  const { gpus, host } = model.status;
  const count = (field) => gpus.reduce((sum, gpu) => sum + gpu[field], 0);
  const title = `${count("running")} run, ${count("waiting")} wait${host ? ` – ${host}` : ""}`;
  if (document.title !== title) document.title = title;
}

function showHeadline() {
  const line = byId("headline");
  document.body.classList.toggle("stale", !view.isConnected && view.pausedAt === null && model.status !== null);
  line.classList.toggle("bad", !view.isConnected && view.pausedAt === null);
  if (!view.isConnected && view.pausedAt === null) {
    line.textContent = model.status ? "the scheduler does not answer; trying again" : "connecting…";
    return;
  }
  if (!model.status) return;
  showTitle();
  const { version, started, host, policy, scheduling, settling, gpus } = model.status;
  const parts = [host, version, `up ${span(Math.max(0, now() - started))}`, `policy ${policy}`];
  if (view.pausedAt !== null) parts.push(`paused at ${clock(view.pausedAt)}`);
  if (!scheduling) parts.push("scheduling OFF: all programs may run");
  if (settling) parts.push("settling after a restart");
  if (!gpus.length) parts.push("no GPU found yet");
  if (model.lost) parts.push(`${model.lost} steps not shown`);
  line.textContent = parts.filter(Boolean).join(" · ");
}

function addCard({ uuid, ...gpu }) {
  const card = {
    turn: element("p", { className: "turn" }),
    bar: element("div", { className: "bar", role: "img" }),
    amounts: element("p", { className: "amounts" }),
    canvas: element("canvas", { role: "img" }),
    more: element("p", { className: "nobody" }),
    rows: element("tbody"),
    nobody: element("p", { className: "nobody" }, "No program uses this GPU. To start one: ", element("code", { textContent: "nvshare run -- python train.py" })),
    queue: element("p", { className: "queue" }),
  };
  const heads = ["Program", "State", "Memory", "Limit", "Turns", "Ran", "Waited"];
  const head = element("thead", {}, element("tr", {}, ...heads.map((text) => element("th", { textContent: text }))));
  card.table = element("table", {}, head, card.rows);
  card.section = element(
    "section", { className: "gpu", id: uuid },
    element("header", {}, element("h2", { textContent: gpuTitle({ uuid, ...gpu }) }, element("small", { textContent: uuid })), card.turn),
    card.bar, card.amounts, card.canvas, card.more, card.nobody, card.queue, card.table,
  );
  card.canvas.addEventListener("pointermove", (event) => showTip(event, uuid));
  card.canvas.addEventListener("pointerdown", (event) => showTip(event, uuid));
  card.canvas.addEventListener("pointerleave", hideTip);
  byId("gpus").append(card.section);
  cards.set(uuid, card);
  return card;
}

function showTurn(card, gpu) {
  const parts = [`${gpu.running} running, ${gpu.waiting} waiting`, `quantum ${span(gpu.quantum_seconds)} (${gpu.mode})`];
  if (gpu.quantum_left_seconds !== null && gpu.waiting) {
    const left = gpu.quantum_left_seconds - (now() - model.status.time);
    parts.push(left > 0 ? `turn ends in ${span(left)}` : "switching");
  }
  card.turn.textContent = parts.join(" · ");
}

function showCard(card, gpu) {
  const whole = gpu.total_memory || 1;
  const part = (className, bytes) => {
    const made = element("i", { className });
    made.style.width = `${Math.min(100, 100 * bytes / whole)}%`;
    return made;
  };
  const safe = element("i", { className: "safe", title: "safe limit" });
  safe.style.left = `${100 * gpu.safe_limit_bytes / whole}%`;
  card.bar.replaceChildren(
    part("run", gpu.running_memory_usage), part("fixed", gpu.unswappable_memory_bytes), part("foreign", gpu.foreign_memory_bytes), safe,
  );
  const amounts = [
    ["running", gpu.running_memory_usage], ["unswappable", gpu.unswappable_memory_bytes], ["other programs", gpu.foreign_memory_bytes],
    ["free for a new program", gpu.available_memory], ["safe limit", gpu.safe_limit_bytes], ["card", gpu.total_memory],
  ].map(([text, bytes]) => element("span", {}, `${text} `, element("b", { textContent: size(bytes) })));
  card.amounts.replaceChildren(...amounts);
  card.bar.setAttribute("aria-label", amounts.map((one) => one.textContent).join(", "));
  const clients = [...gpu.clients];
  clients.sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || a.place - b.place);
  card.section.classList.toggle("empty", clients.length === 0);
  card.queue.hidden = gpu.waiting === 0;
  card.queue.textContent = gpu.waiting ? `Why programs wait: ${queueReason(gpu, model.status.settling)}` : "";
  card.nobody.hidden = clients.length > 0;
  card.table.hidden = clients.length === 0;
  card.rows.replaceChildren(...clients.slice(0, MAX_ROWS).map((client) => row(client, gpu)));
}

function row(client, gpu) {
  const cell = (head, text, className = "") => {
    const made = element("td", { className, textContent: text });
    if (head) made.dataset.head = head;
    return made;
  };
  const who = element("td", { className: "who", textContent: client.name });
  const why = client.state === "waiting" ? obstacle(client, gpu) : "";
  if (why) who.append(element("small", { className: "why", textContent: why }));
  who.append(element("small", { textContent: `${client.id} · ${client.label} · pid ${client.pid}` }));
  const place = client.state === "waiting" ? ` (${client.place})` : client.is_idle ? " (idle)" : "";
  const since = client.since_seconds ? ` ${span(client.since_seconds)}` : "";
  const pause = client.state === "running" && client.is_idle ? " paused" : "";
  const state = element("td", {}, element("span", { className: `state ${client.state}${pause}`, textContent: client.state + place }), since);
  const life = client.held_seconds + client.waited_seconds;
  return element(
    "tr", {}, who, state,
    cell("memory", size(client.memory_allocated)), cell("limit", client.limit_bytes ? size(client.limit_bytes) : "none"),
    cell("turns", String(client.turns)),
    cell("ran", `${span(client.held_seconds)} (${percent(client.held_seconds, life)})`),
    cell("waited", `${span(client.waited_seconds)} (${percent(client.waited_seconds, life)})`),
  );
}

function showLog() {
  const lines = model.lines.slice(-100).reverse().map(({ time, line, isLimit }) => {
    const made = element("li", { className: isLimit ? "limit" : "" });
    made.append(element("time", { textContent: clock(time) }), element("span", { textContent: short(line), title: line }));
    return made;
  });
  byId("log").replaceChildren(...lines);
}

function showTip(event, uuid) {
  const canvas = event.currentTarget;
  const box = canvas.getBoundingClientRect();
  const place = { px: event.clientX - box.left, py: event.clientY - box.top, width: box.width };
  const text = at(model.lanes.get(uuid) ?? new Map(), now(), view.seconds, place);
  const tip = byId("tip");
  tip.hidden = text === null;
  if (text === null) return;
  tip.textContent = text;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8))}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

// The controls.

function setSpan(seconds) {
  view.seconds = seconds;
  for (const button of document.querySelectorAll("[data-span]")) {
    button.setAttribute("aria-pressed", String(Number(button.dataset.span) === seconds));
  }
}

for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => { setSpan(Number(button.dataset.span)); show(); });
}
// While paused nothing is listened to; going on begins with the remembered past, so nothing is missed.
byId("pause").addEventListener("click", (event) => {
  view.pausedAt = view.pausedAt === null ? now() : null;
  if (view.pausedAt === null) listen();
  else view.source.close();
  event.currentTarget.setAttribute("aria-pressed", String(view.pausedAt !== null));
  event.currentTarget.textContent = view.pausedAt === null ? "Pause" : "Continue";
  view.shown = -1;
  show();
});
setSpan(60);
listen();
setInterval(show, FRAME_MS);
