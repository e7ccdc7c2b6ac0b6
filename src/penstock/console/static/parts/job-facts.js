// @ts-check
// What a job's document says, in numbers and words. Pure.
//
//   shareOf(job)            the share that is done, 0 to 1; null: not known, or it never ends
//   speedOf(job)            {rowsPerS, leftMs}; null where it is not known
//   leftOf(job, now)       the time left of a job that runs, or when it runs next, as text
//   cursorOf(job)           where it stands, as text
//   stateOf(job)            {text, kind} for a badge: an operator's pause counts more than the state
//   reasonOf(job)           why it failed, or what its last error was
//   actionsOf(job)          which of pause, resume and run make sense
//   eventOf(event)          {text, kind} of an event of its history

import { ago, count, decimal, duration, UNKNOWN, utc } from "../format.js";

const CANDLES_MS = /** @type {Record<string, number>} */ ({ s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, M: 2_592_000_000 });
const MARKET_TYPES = ["ohlcv_incremental", "markets_refresh"];

/** @param {any} job @returns {boolean} */
export function isDone(job) {
  return job.state === "success" || Boolean(job.cursor?.done);
}

/** @param {any} job @returns {number | null} */
export function shareOf(job) {
  if (isDone(job)) return 1;
  if (MARKET_TYPES.includes(job.type)) return null;
  const { cursor, progress } = job;
  if (!cursor) return null;
  if (isNumber(cursor.from_id) && isNumber(cursor.to_id)) {
    return between(cursor.from_id - 1, isNumber(cursor.last_id) ? cursor.last_id : cursor.from_id - 1, cursor.to_id);
  }
  if (isNumber(cursor.first_id) && isNumber(cursor.last_id)) {
    // A gap of ids: the cursor has what is left of it.
    const left = Math.max(0, cursor.last_id - cursor.first_id + 1);
    return progress?.rows || left ? progress.rows / (progress.rows + left) : null;
  }
  const end = progress?.target_ts ?? cursor.until_ms;
  return isNumber(progress?.first_ts) && isNumber(cursor.since_ms) && isNumber(end)
    ? between(progress.first_ts, cursor.since_ms, end) : null;
}

/** @param {any} job @returns {{rowsPerS: number | null, leftMs: number | null}} */
export function speedOf(job) {
  const unknown = { rowsPerS: null, leftMs: null };
  const began = job.progress?.resumed_at || job.progress?.started_at;
  const updated = Date.parse(job.updated_at);
  const rows = (job.progress?.rows ?? 0) - (job.progress?.resumed_rows ?? 0);
  if (!began || rows <= 0 || !(updated > began)) return unknown;
  const rowsPerS = (rows * 1000) / (updated - began);
  const left = rowsLeft(job);
  return { rowsPerS, leftMs: left === null || isDone(job) ? null : (left / rowsPerS) * 1000 };
}

/** @param {any} job @returns {number | null} */
export function rowsLeft(job) {
  const { cursor, progress } = job;
  if (MARKET_TYPES.includes(job.type) || !cursor) return null;
  if (isNumber(cursor.to_id)) {
    const at = isNumber(cursor.last_id) ? cursor.last_id : (cursor.from_id ?? 1) - 1;
    return Math.max(0, cursor.to_id - at);
  }
  if (isNumber(cursor.first_id) && isNumber(cursor.last_id)) return Math.max(0, cursor.last_id - cursor.first_id + 1);
  const length = lengthMs(job.timeframe);
  const end = progress?.target_ts ?? cursor.until_ms;
  if (!length || !isNumber(cursor.since_ms) || !isNumber(end)) return null;
  return Math.max(0, (end - cursor.since_ms) / length);
}

/** @param {string | null | undefined} timeframe  such as 5m */
function lengthMs(timeframe) {
  const found = /^(\d+)([smhdwM])$/.exec(timeframe ?? "");
  return found ? Number(found[1]) * CANDLES_MS[found[2]] : null;
}

/** @param {any} job @param {number} now @returns {string} */
export function leftOf(job, now) {
  if (job.state === "running") {
    const { leftMs } = speedOf(job);
    return leftMs === null ? UNKNOWN : duration(Math.max(1000, leftMs));
  }
  if (job.status !== "active" || ["failed", "success"].includes(job.state)) return UNKNOWN;
  return job.next_run_at > now ? ago(job.next_run_at, now) : "due";
}

/** @param {any} job @returns {string} */
export function cursorOf(job) {
  const { cursor } = job;
  if (!cursor) return "";
  if (isNumber(cursor.to_id)) return isNumber(cursor.last_id) ? `id ${decimal(cursor.last_id)}` : `from id ${decimal(cursor.from_id ?? 1)}`;
  if (isNumber(cursor.first_id)) return `id ${decimal(cursor.first_id)}`;
  if (isNumber(cursor.next_id)) return `id ${decimal(cursor.next_id)}`;
  if (isNumber(cursor.last_ts)) return utc(cursor.last_ts).slice(0, 16);
  if (isNumber(cursor.since_ms)) return `from ${utc(cursor.since_ms).slice(0, 16)}`;
  return cursor.page ? `page ${count(cursor.page)}` : "";
}

const STATES = /** @type {Record<string, {text: string, kind: import("./badge.js").Kind}>} */ ({
  running: { text: "running", kind: "ok" },
  waiting_rate_limit: { text: "waiting", kind: "warning" },
  queued: { text: "queued", kind: "info" },
  idle: { text: "idle", kind: "off" },
  failed: { text: "failed", kind: "bad" },
  success: { text: "done", kind: "info" },
});

/** @param {any} job @returns {{text: string, kind: import("./badge.js").Kind}} */
export function stateOf(job) {
  if (job.state === "success") return STATES.success;
  // A worker parks a paused job at the end of its page: until then it still runs.
  if (job.status === "paused") return job.state === "running" ? { text: "pausing", kind: "warning" } : { text: "paused", kind: "warning" };
  if (job.status === "deleted") return { text: "deleted", kind: "off" };
  return STATES[job.state] ?? { text: job.state, kind: "off" };
}

/** @param {any} job @returns {string} */
export function reasonOf(job) {
  if (job.unknown_kind) return "made by a newer version: it is shown and left alone";
  return job.stats?.last_error ?? "";
}

/** @param {any} job @returns {("pause" | "resume" | "run")[]} */
export function actionsOf(job) {
  if (job.status === "deleted" || job.state === "success" || job.unknown_kind) return [];
  if (job.status === "paused") return ["resume"];
  if (job.state === "failed") return ["resume"];
  return job.state === "running" ? ["pause"] : ["pause", "run"];
}

const EVENTS = /** @type {Record<string, {text: string, kind: string}>} */ ({
  created: { text: "Created", kind: "info" },
  edited: { text: "Changed", kind: "info" },
  paused: { text: "Paused", kind: "warning" },
  resumed: { text: "Resumed", kind: "ok" },
  run: { text: "Run now", kind: "info" },
  claimed: { text: "A worker began", kind: "ok" },
  taken_over: { text: "Another worker took over", kind: "warning" },
  parked: { text: "Put back", kind: "off" },
  waiting: { text: "Waits", kind: "warning" },
  skipped: { text: "Skipped", kind: "warning" },
  missing: { text: "Found missing", kind: "warning" },
  failed: { text: "Failed", kind: "bad" },
  done: { text: "Done", kind: "ok" },
  deleted: { text: "Deleted", kind: "off" },
});

/** @param {{what: string}} event @returns {{text: string, kind: string}} */
export function eventOf(event) {
  return EVENTS[event.what] ?? { text: event.what, kind: "off" };
}

/** @param {number} first @param {number} at @param {number} end */
function between(first, at, end) {
  return end <= first ? null : Math.min(1, Math.max(0, (at - first) / (end - first)));
}

/** @param {any} value @returns {value is number} */
function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
