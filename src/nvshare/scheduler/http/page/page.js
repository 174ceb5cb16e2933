// The page itself: listens, keeps the model, and shows it.

import { Card } from "./card.js";
import { element, setOrder, setText } from "./dom.js";
import { at } from "./lanes.js";
import { Model } from "./model.js";
import { showOverview } from "./overview.js";
import { clock, short, span } from "./words.js";

const FRAME_MS = 250;
const model = new Model();
const cards = new Map();
const view = { seconds: 60, pausedAt: null, isConnected: false, offset: 0, shown: -1, source: null };

const byId = (id) => document.getElementById(id);

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
    show();
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
  const gpus = inOrder(model.status.gpus);
  setOrder(byId("gpus"), gpus.map((gpu) => (cards.get(gpu.uuid) ?? addCard(gpu.uuid)).section));
  for (const gpu of gpus) {
    const card = cards.get(gpu.uuid);
    if (isNews) card.show(gpu);
    // The overview has a line for it.
    card.section.hidden = gpus.length > 1 && isUnused(gpu);
    card.section.classList.toggle("empty", isUnused(gpu));
    card.showTurn(gpu, now());
    card.drawLanes(now(), view.seconds);
  }
  if (isNews) {
    showOverview(byId("overview"), gpus, (client) => model.colour(client));
    byId("hint").hidden = gpus.length === 1 || gpus.some((gpu) => gpu.clients.length > 0);
    byId("events").hidden = false;
    showLog();
    view.shown = model.version;
  }
}

// Nobody uses it, and nobody did in the time that is shown.
function isUnused(gpu) {
  const lanes = [...(model.lanes.get(gpu.uuid) ?? new Map()).values()];
  return gpu.clients.length === 0 && !lanes.some((lane) => lane.wasActive(now() - view.seconds, now()));
}

function addCard(uuid) {
  const card = new Card(uuid, model);
  card.canvas.addEventListener("pointermove", (event) => showTip(event, uuid));
  card.canvas.addEventListener("pointerdown", (event) => showTip(event, uuid));
  card.canvas.addEventListener("pointerleave", hideTip);
  cards.set(uuid, card);
  return card;
}

// By NVML's index; those that NVML does not know come last, in the order in which they were seen.
function inOrder(gpus) {
  return [...gpus].sort((a, b) => (a.index ?? Infinity) - (b.index ?? Infinity) || 0);
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
    setText(line, model.status ? "the scheduler does not answer; trying again" : "connecting…");
    return;
  }
  if (!model.status) return;
  showTitle();
  const { version, started, host, policy, scheduling, settling, gpus } = model.status;
  const parts = [host];
  if (view.pausedAt !== null) parts.push(`paused at ${clock(view.pausedAt)}`);
  if (!scheduling) parts.push("scheduling OFF: all programs may run");
  if (settling) parts.push("settling after a restart");
  if (!gpus.length) parts.push("no GPU found yet");
  if (model.lost) parts.push(`${model.lost} steps not shown`);
  parts.push(version, `up ${span(Math.max(0, now() - started))}`, `policy ${policy}`);
  setText(line, parts.filter(Boolean).join(" · "));
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
