// The picture of one GPU: a row for each client, time to the right, now at the right edge.

import { clock, rate, size, span } from "./words.js";

const ROW = 34;
const LABEL = 15;
const RUN = 12;
const MOVE = 3;
const AXIS = 20;
const MAX_ROWS = 40;
const TICKS = { 60: 10, 300: 60, 900: 180 };
const SWATCH = 9;
const HEIGHTS = { running: RUN, unused: RUN, dropping: RUN, waiting: 4 };

function colours(canvas) {
  const style = getComputedStyle(canvas);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    running: get("--run"), unused: get("--unused"), dropping: get("--drop"), waiting: get("--wait"), mark: get("--mark"), move: get("--move"),
    ink: get("--ink"), faint: get("--faint"), line: get("--line"),
    programs: Array.from({ length: 10 }, (_, number) => get(`--p${number}`)),
  };
}

// Lanes with anything to show in the window, those in the GPU first, then by age.
export function visible(lanes, now, seconds) {
  const shown = [...lanes.values()].filter(
    (lane) => lane.left === null ? !lane.isQuiet : lane.wasActive(now - seconds, now),
  );
  return { shown: shown.slice(-MAX_ROWS), more: Math.max(0, shown.length - MAX_ROWS) };
}

export function draw(canvas, lanes, now, seconds) {
  const { shown, more } = visible(lanes, now, seconds);
  const width = canvas.clientWidth;
  const height = shown.length * ROW + AXIS;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  const colour = colours(canvas);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  const x = (time) => Math.max(0, width * (1 - (now - time) / seconds));
  drawAxis(pen, colour, { x, now, seconds, width, height });
  shown.forEach((lane, row) => drawLane(pen, colour, lane, { x, now, seconds, width, top: row * ROW }));
  const runs = shown.filter((lane) => lane.last?.to === null && ["running", "unused"].includes(lane.last.state)).map((lane) => lane.name);
  canvas.setAttribute("aria-label", `${shown.length + more} programs in this time; running now: ${runs.join(", ") || "none"}`);
  return more;
}

function drawAxis(pen, colour, { x, now, seconds, width, height }) {
  const step = (TICKS[seconds] ?? seconds / 5) * (width < 420 ? 2 : 1);
  pen.fillStyle = colour.faint;
  pen.strokeStyle = colour.line;
  pen.lineWidth = 1;
  for (let at = Math.ceil((now - seconds) / step) * step; at <= now; at += step) {
    pen.beginPath();
    pen.moveTo(x(at), 0);
    pen.lineTo(x(at), height - AXIS + 4);
    pen.stroke();
    const text = clock(at);
    const left = x(at) - pen.measureText(text).width / 2;
    if (left >= 0 && left + pen.measureText(text).width <= width) pen.fillText(text, left, height - 4);
  }
}

function drawLane(pen, colour, lane, { x, now, seconds, width, top }) {
  const middle = top + LABEL + 2 + RUN / 2;
  pen.strokeStyle = colour.line;
  pen.beginPath();
  pen.moveTo(0, middle);
  pen.lineTo(width, middle);
  pen.stroke();
  for (const stretch of lane.stretches) {
    const to = stretch.to ?? now;
    if (to < now - seconds) continue;
    const tall = HEIGHTS[stretch.state];
    pen.fillStyle = colour[stretch.state];
    pen.fillRect(x(stretch.from), middle - tall / 2, Math.max(1, x(to) - x(stretch.from)), tall);
  }
  for (const move of lane.moves) {
    if (move.to < now - seconds) continue;
    pen.fillStyle = colour.move;
    pen.fillRect(x(move.from), moveTop(move, middle), Math.max(2, x(move.to) - x(move.from)), MOVE);
  }
  for (const mark of lane.marks) {
    if (mark.time < now - seconds) continue;
    pen.fillStyle = colour.mark;
    pen.beginPath();
    for (const [dx, dy] of [[0, -6], [6, 0], [0, 6], [-6, 0]]) pen.lineTo(x(mark.time) + dx, middle + dy);
    pen.fill();
  }
  pen.fillStyle = colour.programs[lane.colour % 10];
  pen.fillRect(0, top + LABEL - 3 - SWATCH, SWATCH, SWATCH);
  pen.fillStyle = lane.left === null ? colour.ink : colour.faint;
  const text = `${lane.name || "?"}  ${lane.client}  ${lane.label}${lane.left === null ? "" : "  (ended)"}`;
  pen.fillText(fitted(pen, text, width - SWATCH - 5), SWATCH + 5, top + LABEL - 3);
}

// Memory that comes in is above the line of its program, memory that goes out below it.
function moveTop(move, middle) {
  return move.toHost ? middle + RUN / 2 - MOVE : middle - RUN / 2;
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let cut = text.length;
  while (cut > 1 && pen.measureText(`${text.slice(0, cut)}…`).width > width) cut -= 1;
  return `${text.slice(0, cut)}…`;
}

// What is under the pointer, in words; null if nothing is.
export function at(lanes, now, seconds, { px, py, width }) {
  const { shown } = visible(lanes, now, seconds);
  const lane = shown[Math.floor(py / ROW)];
  if (!lane) return null;
  const time = now - seconds * (1 - px / width);
  const slack = seconds * 6 / width;
  const mark = lane.marks.find((one) => Math.abs(one.time - time) <= slack);
  if (mark) return `${lane.name}: limit ${limit(mark.old)} → ${limit(mark.now)} at ${clock(mark.time)}`;
  const found = lane.stretches.findLast((s) => s.from - slack / 3 <= time && time <= (s.to ?? now) + slack / 3);
  const moves = lane.moves
    .filter((one) => one.from - slack <= time && time <= one.to + slack)
    .map((one) => `moved ${size(one.bytes)} ${one.toHost ? "to the host" : "to the GPU"} in ${span(one.to - one.from)}${rate(one)}`);
  if (!found) return moves.length ? [`${lane.name} ${lane.client} (${lane.label})`, ...moves].join("\n") : null;
  const verb = { running: "ran", unused: "held the GPU without work", waiting: "waited", dropping: "finished its work" }[found.state];
  const lines = [
    `${lane.name} ${lane.client} (${lane.label})`,
    `${verb} for ${span((found.to ?? now) - found.from)} from ${clock(found.from)}`,
    found.why, found.end, ...moves,
  ];
  return lines.filter(Boolean).join("\n");
}

function limit(bytes) {
  return bytes ? size(bytes) : "none";
}
