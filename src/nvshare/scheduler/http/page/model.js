// What the page knows: for each GPU and client the stretches of time in which it ran or waited.
//
// Steps tell of changes, a status tells of the whole. Steps build the lanes; a status sets right what steps did not
// tell (those from before the journal began, or lost because there were too many). Nothing here touches the page.

const MAX_STRETCHES = 4000;
const MAX_MOVES = 1000;
const MAX_LINES = 300;
const KEEP_S = 1000;

const CAUSES = {
  quantum: "the quantum expired and a program waited",
  growth: "the running programs no longer fitted on the GPU",
  thrash: "the running programs slowed each other down: they use more memory than they say",
  idle: "it was idle and a program waited",
  silent: "it was not heard from",
  operator: "the operator ordered it",
  claim: "it connected again with a lock that no longer fitted",
};
const ENDS = {
  released: "released the GPU",
  revoked: "did not stop in time; the next program ran",
  left: "the program ended",
  off: "scheduling was switched on or off",
};

class Lane {
  constructor(client) {
    this.client = client;
    this.name = "";
    this.label = "";
    this.group = "";
    this.stretches = [];
    this.marks = [];
    this.moves = [];
    this.left = null;
  }

  get last() {
    return this.stretches.at(-1);
  }

  enter(state, at, why) {
    const last = this.last;
    if (last && last.to === null) {
      if (last.state === state) return;
      last.to = Math.max(at, last.from);
    }
    if (state) this.stretches.push({ state, from: last ? Math.max(at, last.from) : at, to: null, why, end: "" });
    if (this.stretches.length > MAX_STRETCHES) this.stretches.splice(0, MAX_STRETCHES / 2);
  }

  // A move is reported when it has ended.
  move(ended, { to_host: toHost, moved, took_ns: took }) {
    this.moves.push({ from: ended - took / 1e9, to: ended, toHost, bytes: moved });
    if (this.moves.length > MAX_MOVES) this.moves.splice(0, MAX_MOVES / 2);
  }

  explain(end) {
    if (this.last) this.last.end = end;
  }
}

export class Model {
  constructor() {
    this.status = null;
    this.lanes = new Map();
    this.lines = [];
    this.lost = 0;
    this.version = 0;
    this._clients = new Map();
  }

  takeSteps({ steps, lost, is_past }) {
    if (is_past) {
      this.lanes.clear();
      this._clients.clear();
      this.lines = [];
    }
    this.lost += lost;
    for (const step of steps) this._takeStep(step);
    if (this.lines.length > MAX_LINES) this.lines.splice(0, this.lines.length - MAX_LINES);
    this.version += 1;
  }

  takeStatus(status) {
    this.status = status;
    const alive = new Set();
    for (const client of status.node.clients) {
      alive.add(client.id);
      this._clients.set(client.id, client);
      for (const seat of client.seats) this._setRight(client, seat, status.now);
    }
    for (const lanes of this.lanes.values()) {
      for (const lane of lanes.values()) {
        if (!alive.has(lane.client)) this._leave(lane, status.now);
      }
    }
    this._forget(status.now);
    this.version += 1;
  }

  _setRight(client, seat, now) {
    const lane = this._lane(seat.gpu, client.id);
    Object.assign(lane, { name: client.name, label: client.label, group: client.group, left: null });
    const state = ["running", "dropping", "waiting"].includes(seat.state) ? seat.state : null;
    const since = seat.state === "dropping" ? now : now - seat.since_ns / 1e9;
    const open = lane.last && lane.last.to === null ? lane.last.state : null;
    if (open !== state) lane.enter(state, since, "");
  }

  _takeStep({ time, text, event, actions }) {
    const came = event.ClientRegistered;
    if (came) this._clients.set(came.client, came);
    const moved = event.MemoryMoved;
    if (moved) this._lane(moved.gpu, moved.client).move(time, moved);
    for (const action of actions) {
      const [[kind, values]] = Object.entries(action);
      this[`_on${kind}`]?.(time, values);
    }
    for (const line of text) this.lines.push({ time, line, isLimit: line.includes("imit") });
    const gone = event.ClientLeft;
    if (gone) {
      for (const lanes of this.lanes.values()) {
        const lane = lanes.get(gone.client);
        if (lane) this._leave(lane, time);
      }
    }
  }

  _onQueueClient(time, { client, gpu, place }) {
    this._lane(gpu, client).enter("waiting", time, `place ${place} in the queue`);
  }

  _onGiveLock(time, { client, gpu }) {
    this._lane(gpu, client).enter("running", time, "");
  }

  _onDropLock(time, { client, gpu, cause }) {
    this._lane(gpu, client).enter("dropping", time, CAUSES[cause] ?? cause);
  }

  _onEndTurn(time, { client, gpu, end }) {
    const lane = this._lane(gpu, client);
    lane.explain(ENDS[end] ?? end);
    lane.enter(null, time, "");
  }

  _onReportLimit(time, { group, old, new: now }) {
    for (const lanes of this.lanes.values()) {
      for (const lane of lanes.values()) if (lane.group === group) lane.marks.push({ time, old, now });
    }
  }

  _leave(lane, time) {
    lane.left ??= time;
    lane.enter(null, time, "");
  }

  _lane(gpu, client) {
    if (!this.lanes.has(gpu)) this.lanes.set(gpu, new Map());
    const lanes = this.lanes.get(gpu);
    if (!lanes.has(client)) {
      const { name = "", label = "", group = "" } = this._clients.get(client) ?? {};
      lanes.set(client, Object.assign(new Lane(client), { name, label, group }));
    }
    return lanes.get(client);
  }

  _forget(now) {
    for (const lanes of this.lanes.values()) {
      for (const [client, lane] of lanes) {
        while (lane.stretches.length && (lane.stretches[0].to ?? now) < now - KEEP_S) lane.stretches.shift();
        while (lane.moves.length && lane.moves[0].to < now - KEEP_S) lane.moves.shift();
        if (lane.left !== null && !lane.stretches.length) lanes.delete(client);
      }
    }
    for (const client of this._clients.keys()) {
      if (![...this.lanes.values()].some((lanes) => lanes.has(client))) this._clients.delete(client);
    }
  }
}
