// @ts-check
// The processes as a tree in rows: supervisors with their processes below them, then all others. Pure.
//
//   treeOf(items)    Row[], in the order in which they are shown; `level` is 0 or 1

import { count, duration } from "../format.js";

/**
 * @typedef {{key: string, level: number, name: string, kind: string, state: string, badge: import("./badge.js").Kind, doing: string, problems: string[], since_ms: number | null, last_data_ms: number | null, restarts: number | null, host: string, pid: number | null, folder: string, isEnded: boolean}} Row
 */

/**
 * @param {any[]} items
 * @returns {Row[]}
 */
export function treeOf(items) {
  const byPid = new Map(items.map((one) => [`${one.host}/${one.pid}`, one]));
  const supervisors = items.filter((one) => one.children?.length && !one.gone);
  /** @type {Set<string>} */
  const below = new Set();
  /** @type {Row[]} */
  const rows = [];
  for (const top of supervisors) {
    below.add(top.id);
    rows.push(rowOf(top, 0));
    for (const child of top.children) {
      const known = child.pid === null ? null : byPid.get(`${top.host}/${child.pid}`);
      if (known && known.id !== top.id) below.add(known.id);
      rows.push(childRow(top, child, known ?? null));
    }
  }
  return [...rows, ...items.filter((one) => !below.has(one.id)).map((one) => rowOf(one, 0))];
}

/** @param {any} one @param {number} level @returns {Row} */
function rowOf(one, level) {
  const isEnded = one.state === "stopped";
  const state = one.gone ? "gone" : one.state === "running" && one.health !== "healthy" ? one.health : one.state;
  return {
    key: one.id, level, name: one.name, kind: one.kind, state, badge: kindOf(state), doing: one.doing,
    problems: one.gone ? [`No status for ${duration(one.silent_ms)}: it was killed, or hangs.`, ...one.problems] : one.problems,
    since_ms: one.started_ms, last_data_ms: one.last_data_ms, restarts: one.restarts, host: one.host, pid: one.pid, folder: one.folder, isEnded,
  };
}

/** @param {any} top @param {any} child @param {any | null} known @returns {Row} */
function childRow(top, child, known) {
  const own = known ? rowOf(known, 1) : null;
  // A process that reports itself knows more than its supervisor, unless that is stopping or restarting it.
  const state = own && child.state === "running" ? own.state : child.state;
  const dropped = child.lines_dropped ? [`${count(child.lines_dropped)} lines of its log were dropped.`] : [];
  return {
    key: `${top.id}/${child.name}`, level: 1, name: child.name, kind: own?.kind ?? "", state, badge: kindOf(state), doing: own?.doing ?? "",
    problems: [...(own?.problems ?? []), ...(child.reason ? [`Last restart: ${child.reason}`] : []), ...dropped],
    since_ms: child.since_ms || own?.since_ms || null, last_data_ms: own?.last_data_ms ?? null, restarts: child.restarts,
    host: top.host, pid: child.pid, folder: own?.folder ?? top.folder, isEnded: child.state === "stopped",
  };
}

/** @param {string} state @returns {import("./badge.js").Kind} */
function kindOf(state) {
  if (["failed", "gone", "given up"].includes(state)) return "bad";
  if (["impaired", "waiting", "starting", "stopping"].includes(state)) return "warning";
  return state === "running" ? "ok" : "off";
}
