// The details of one GPU: its memory, the lanes of its programs, and a table. What is shown has the same height no
// matter which program runs or waits, so that nothing moves on the page when a turn ends.

import { element, setClass, setLine, setText } from "./dom.js";
import { draw } from "./lanes.js";
import { colourClass, makeBar, showBar } from "./memory_bar.js";
import {
  enough, expectedStart, gpuTitle, groupUse, obstacle, ownUse, percent, queueReason, size, span, useExplained, utilization,
} from "./words.js";

const MAX_ROWS = 200;
const STATES = ["running", "dropping", "waiting", "blocked", "paused", "silent", "unscheduled", "idle"];
const HEADS = ["Program", "State", "Memory", "Limit", "GPU", "Turns", "Ran", "Waited"];

export class Card {
  constructor(uuid, model) {
    this.uuid = uuid;
    this.canvas = element("canvas", { role: "img" });
    this._model = model;
    this._isOpen = false;
    this._rows = [];
    this._title = element("span");
    this._turn = element("p", { className: "turn" });
    this._bar = makeBar({ role: "img" });
    this._amounts = element("p", { className: "amounts" });
    this._more = element("p", { className: "nobody" });
    this._nobody = element("p", { className: "nobody" }, "No program uses this GPU. To start one: ", element("code", { textContent: "nvshare run -- python train.py" }));
    this._queue = element("p", { className: "queue" });
    this._body = element("tbody");
    const head = element("thead", {}, element("tr", {}, ...HEADS.map((text) => element("th", { textContent: text }))));
    this._table = element("table", {}, head, this._body);
    this._fold = element("button", { className: "fold" });
    this._fold.addEventListener("click", () => { this._isOpen = !this._isOpen; this.show(this._gpu); });
    const title = element("h2", {}, this._title, element("small", { textContent: uuid }));
    this.section = element(
      "section", { className: "gpu", id: uuid },
      element("header", {}, title, this._turn),
      this._bar, this._amounts, this.canvas, this._more, this._nobody, this._queue, this._table, this._fold,
    );
  }

  show(gpu) {
    this._gpu = gpu;
    setText(this._title, gpuTitle(gpu));
    showBar(this._bar, gpu, (client) => this._model.colour(client));
    this._showAmounts(gpu);
    const isEmpty = gpu.clients.length === 0;
    this._nobody.hidden = !isEmpty;
    this._table.hidden = isEmpty;
    this._queue.hidden = isEmpty;
    setLine(this._queue, gpu.waiting ? `Why programs wait: ${queueReason(gpu, this._model.status.settling)}` : "No program waits.");
    this._showRows(gpu);
  }

  showTurn(gpu, now) {
    const parts = [`${gpu.running} running, ${gpu.waiting} waiting`, `quantum ${span(gpu.quantum_seconds)} (${gpu.mode})`];
    if (gpu.quantum_left_seconds !== null && gpu.waiting) {
      const left = gpu.quantum_left_seconds - (now - this._model.status.time);
      parts.push(left > 0 ? `turn ends in ${span(left)}` : "switching");
    }
    setLine(this._turn, [...parts, utilization(gpu)].filter(Boolean).join(" · "));
  }

  drawLanes(now, seconds) {
    if (this.section.hidden) return;
    const more = draw(this.canvas, this._model.lanes.get(this.uuid) ?? new Map(), now, seconds);
    setText(this._more, more ? `${more} older programs are not drawn` : "");
  }

  _showAmounts(gpu) {
    const amounts = [
      ["running", gpu.running_memory_usage], ["unswappable", gpu.unswappable_memory_bytes], ["others", gpu.foreign_memory_bytes, "foreign"],
      ["free", gpu.available_memory], ["safe limit", gpu.safe_limit_bytes, "safe"], ["card", gpu.total_memory],
    ].map(([text, bytes, key]) => [`${text} `, size(bytes), key]);
    const line = amounts.map(([text, bytes]) => text + bytes).join(", ");
    if (this._bar.getAttribute("aria-label") === line) return;
    this._bar.setAttribute("aria-label", line);
    this._amounts.replaceChildren(...amounts.map(([text, bytes, key]) => amountOf(text, bytes, key)));
  }

  _showRows(gpu) {
    const clients = [...gpu.clients];
    clients.sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || a.place - b.place);
    const quiet = clients.filter((client) => this._model.isQuiet(gpu.uuid, client));
    const shown = (this._isOpen ? clients : clients.filter((client) => !quiet.includes(client))).slice(0, MAX_ROWS);
    while (this._rows.length < shown.length) this._rows.push(new Row(this._body));
    while (this._rows.length > shown.length) this._rows.pop().remove();
    shown.forEach((client, number) => this._rows[number].show(client, gpu, this._model.colour(client.id)));
    this._fold.hidden = quiet.length === 0;
    const programs = quiet.length === 1 ? "1 program" : `${quiet.length} programs`;
    setText(this._fold, `${this._isOpen ? "Hide" : "Show"} ${programs} without work in the last 15 minutes`);
  }
}

// A row of the table; it shows another client when the order changes.
class Row {
  constructor(body) {
    this._swatch = element("i");
    this._name = element("span", { className: "name" });
    this._detail = element("small");
    this._state = element("span");
    this._since = element("span");
    this._start = element("small");
    this._figures = HEADS.slice(2).map(() => element("span"));
    this._group = element("small");
    this._cells = this._figures.map((figure, number) => cellOf(HEADS[number + 2].toLowerCase(), figure));
    this._gpu = this._cells[HEADS.indexOf("GPU") - 2];
    this._gpu.append(this._group);
    const who = element("td", { className: "who" }, this._swatch, this._name, this._detail);
    const state = element("td", { className: "states" }, element("div", {}, this._state, this._since, this._start));
    this._tr = element("tr", {}, who, state, ...this._cells);
    body.append(this._tr);
  }

  remove() {
    this._tr.remove();
  }

  show(client, gpu, colour) {
    setClass(this._swatch, `swatch ${colourClass(colour)}`);
    setLine(this._name, client.name);
    const why = client.state === "waiting" ? `${obstacle(client, gpu)} · ` : enough(client);
    this._showDetail(why, `${client.id} · ${client.label} · pid ${client.pid}`);
    const isUnused = client.state === "running" && client.is_idle;
    setClass(this._state, `state ${client.state}${isUnused ? " unused" : ""}`);
    setText(this._state, stateOf(client, isUnused));
    setText(this._since, client.since_seconds ? span(client.since_seconds) : "");
    setText(this._start, client.state === "waiting" ? expectedStart(client) : "");
    const life = client.held_seconds + client.waited_seconds;
    const texts = [
      size(client.memory_allocated), client.limit_bytes ? size(client.limit_bytes) : "none",
      ownUse(client), String(client.turns),
      // In a wide table the percentage is on a line of its own.
      ...[client.held_seconds, client.waited_seconds].map((part) => `${span(part)}\n(${percent(part, life)})`),
    ];
    texts.forEach((text, number) => setText(this._figures[number], text));
    setText(this._group, groupUse(client, gpu));
    const use = useExplained(client, gpu);
    if (this._gpu.title !== use) this._gpu.title = use;
  }

  _showDetail(why, who) {
    if (this._detail.title === why + who) return;
    this._detail.title = why + who;
    this._detail.replaceChildren(element("span", { className: "why", textContent: why }), who);
  }
}

function stateOf(client, isUnused) {
  if (client.held_back_by !== null && client.state !== "paused") return "held back";
  return client.state + (client.state === "waiting" ? ` (${client.place})` : isUnused ? " (idle)" : "");
}

// An amount with the colour that it has in the memory bar, if it is one.
function amountOf(text, bytes, key) {
  const keys = key ? [element("i", { className: `key ${key}` })] : [];
  return element("span", {}, ...keys, text, element("b", { textContent: bytes }));
}

function cellOf(head, figure) {
  const cell = element("td", {}, figure);
  cell.dataset.head = head;
  return cell;
}
