// What the page knows: for each GPU and client the stretches of time in which it ran or waited.
//
// Steps tell of changes, a status tells of the whole. Steps build the lanes; a status sets right what steps did not
// tell (those from before the journal began, or lost because there were too many). Nothing here touches the page.

const MAX_STRETCHES = 4000;
const MAX_MOVES = 1000;
const MAX_LINES = 300;
const KEEP_S = 1000;
const QUIET_S = 900;

const CAUSES = {
  quantum: "the quantum expired and a program waited",
  growth: "the running programs no longer fitted on the GPU",
  priority: "a program of higher priority has work",
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
    this.colour = 0;
    this.isQuiet = false;
  }

  // Whether it had anything to do from then on.
  wasActive(from, now) {
    return this.stretches.some((stretch) => (stretch.to ?? now) > from);
  }

  get last() {
    return this.stretches.at(-1);
  }

  enter(state, at, why) {
    const last = this.last;
    if (state) this.isQuiet = false;
    if (last && last.to === null) {
      if (last.state === state) return;
      last.to = Math.max(at, last.from);
    }
    if (state) this.stretches.push({ state, from: last ? Math.max(at, last.from) : at, to: null, why, end: "" });
    if (this.stretches.length > MAX_STRETCHES) this.stretches.splice(0, MAX_STRETCHES / 2);
  }

  // A move is reported when it has ended.
  move(ended, { to_host: toHost, moved_bytes: bytes, took_seconds: took }) {
    this.moves.push({ from: ended - took, to: ended, toHost, bytes });
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
    this._colours = new Map();
  }

  // A number for each client, the smallest that no other one has.
  colour(client) {
    if (!this._colours.has(client)) {
      const taken = new Set(this._colours.values());
      let number = 0;
      while (taken.has(number)) number += 1;
      this._colours.set(client, number);
    }
    return this._colours.get(client);
  }

  // Whether a client has had no work for a long time.
  isQuiet(gpu, client) {
    return client.state === "idle" && (this.lanes.get(gpu)?.get(client.id)?.isQuiet ?? true);
  }

  takeSteps({ events, changes, lost, is_past }) {
    if (is_past) {
      this.lanes.clear();
      this._clients.clear();
      this.lines = [];
    }
    this.lost += lost;
    for (const change of changes) this[`_on_${change.change}`](change);
    for (const { time, text } of events) this.lines.push({ time, line: text, isLimit: text.includes("imit") });
    if (this.lines.length > MAX_LINES) this.lines.splice(0, this.lines.length - MAX_LINES);
    this.version += 1;
  }

  takeStatus(status) {
    this.status = status;
    const alive = new Set();
    for (const gpu of status.gpus) {
      for (const client of gpu.clients) {
        alive.add(client.id);
        this._clients.set(client.id, client);
        this._setRight(gpu.uuid, client, status.time);
      }
    }
    for (const lanes of this.lanes.values()) {
      for (const lane of lanes.values()) {
        if (!alive.has(lane.client)) this._leave(lane, status.time);
      }
    }
    this._forget(status.time);
    this.version += 1;
  }

  _setRight(gpu, client, now) {
    const lane = this._lane(gpu, client.id);
    Object.assign(lane, { name: client.name, label: client.label, group: client.group, left: null });
    const isUnused = client.state === "running" && client.is_idle;
    const state = isUnused ? "unused" : ["running", "dropping", "waiting"].includes(client.state) ? client.state : null;
    // `since_seconds` is the time with the lock; when a holder became idle or told to stop is not known.
    const since = isUnused || client.state === "dropping" ? now : now - client.since_seconds;
    const open = lane.last && lane.last.to === null ? lane.last.state : null;
    if (open !== state) lane.enter(state, since, "");
    const idleFor = client.last_scheduled_time === null ? Infinity : now - client.last_scheduled_time;
    lane.isQuiet = client.state === "idle" && lane.stretches.length === 0 && idleFor > QUIET_S;
  }

  // One for each kind of change.

  _on_registered({ client, name, label, group }) {
    this._clients.set(client, { name, label, group });
  }

  _on_left({ time, client }) {
    for (const lanes of this.lanes.values()) {
      const lane = lanes.get(client);
      if (lane) this._leave(lane, time);
    }
  }

  _on_waiting({ time, client, gpu, place }) {
    this._lane(gpu, client).enter("waiting", time, `place ${place} in the queue`);
  }

  _on_running({ time, client, gpu }) {
    this._lane(gpu, client).enter("running", time, "");
  }

  // A holder without work, while others wait.
  _on_idle({ time, client, gpu }) {
    const lane = this._lane(gpu, client);
    if (lane.last?.to === null && lane.last.state === "running") lane.enter("unused", time, "");
  }

  _on_busy({ time, client, gpu }) {
    const lane = this._lane(gpu, client);
    if (lane.last?.to === null && lane.last.state === "unused") lane.enter("running", time, "");
  }

  _on_dropping({ time, client, gpu, cause }) {
    this._lane(gpu, client).enter("dropping", time, CAUSES[cause] ?? cause);
  }

  _on_ended({ time, client, gpu, cause }) {
    const lane = this._lane(gpu, client);
    lane.explain(ENDS[cause] ?? cause);
    lane.enter(null, time, "");
  }

  _on_moved(change) {
    this._lane(change.gpu, change.client).move(change.time, change);
  }

  _on_limit({ time, group, old_limit_bytes, new_limit_bytes }) {
    for (const lanes of this.lanes.values()) {
      for (const lane of lanes.values()) {
        if (lane.group === group) lane.marks.push({ time, old: old_limit_bytes, now: new_limit_bytes });
      }
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
      lanes.set(client, Object.assign(new Lane(client), { name, label, group, colour: this.colour(client) }));
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
    for (const client of this._colours.keys()) {
      if (!this._clients.has(client)) this._colours.delete(client);
    }
  }
}
