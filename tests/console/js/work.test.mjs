import assert from "node:assert/strict";
import test from "node:test";

import { countdown } from "../../../src/penstock/console/static/parts/countdown.js";
import { actionsOf, cursorOf, leftOf, rowsLeft, shareOf, speedOf, stateOf } from "../../../src/penstock/console/static/parts/job-facts.js";
import { LogLines, matches, summary } from "../../../src/penstock/console/static/parts/log-lines.js";
import { treeOf } from "../../../src/penstock/console/static/parts/process-tree.js";
import { shareUp, stretches } from "../../../src/penstock/console/static/parts/uptime.js";
import { nextPath } from "../../../src/penstock/console/static/pages/login.js";

const AT = Date.UTC(2026, 10, 18, 8);
const HOUR = 3_600_000;

/** A backfill of 100 hourly candles, of which 25 are stored. */
const job = (changes = {}) => ({
  id: "a", type: "ohlcv_backfill", exchange_id: "binance", symbol: "BTC/USDT", timeframe: "1h", status: "active", state: "running", next_run_at: AT,
  cursor: { since_ms: AT - 75 * HOUR, until_ms: AT, last_ts: AT - 76 * HOUR, done: false },
  progress: { rows: 25, started_at: AT - 5000, resumed_at: null, resumed_rows: 0, resumptions: 0, first_ts: AT - 100 * HOUR, target_ts: AT },
  stats: { last_error: null }, updated_at: new Date(AT).toISOString(), ...changes,
});

test("the progress of a job is that of its cursor, in times or in ids", () => {
  assert.equal(shareOf(job()), 0.25);
  assert.equal(shareOf(job({ cursor: { from_id: 1, to_id: 1000, last_id: 500 } })), 0.5);
  assert.equal(shareOf(job({ cursor: { from_id: 1, to_id: 1000 } })), 0);
  // A gap: the cursor has what is left.
  assert.equal(shareOf(job({ cursor: { first_id: 26, last_id: 100 } })), 0.25);
  assert.equal(shareOf(job({ state: "success" })), 1);
});

test("a progress that is not known is null, never 0 and never above 1", () => {
  assert.equal(shareOf(job({ type: "ohlcv_incremental" })), null);
  assert.equal(shareOf(job({ cursor: null })), null);
  assert.equal(shareOf(job({ cursor: {}, progress: {} })), null);
  assert.equal(shareOf(job({ cursor: { since_ms: AT + HOUR, until_ms: AT } })), 1);
});

test("the time left follows from the rows since a job began or continued", () => {
  assert.equal(rowsLeft(job()), 75);
  assert.deepEqual(speedOf(job()), { rowsPerS: 5, leftMs: 15_000 });
  const resumed = job({ progress: { ...job().progress, rows: 25, resumed_at: AT - 1000, resumed_rows: 20 } });
  assert.deepEqual(speedOf(resumed), { rowsPerS: 5, leftMs: 15_000 });
  assert.deepEqual(speedOf(job({ progress: { rows: 0 } })), { rowsPerS: null, leftMs: null });
  assert.equal(leftOf(job(), AT), "15 s");
  assert.equal(leftOf(job({ state: "idle", next_run_at: AT + 90_000 }), AT), "in 1 m 30 s");
  assert.equal(leftOf(job({ state: "idle" }), AT), "due");
  assert.equal(leftOf(job({ state: "failed" }), AT), "–");
});

test("a paused job that a worker still holds is pausing", () => {
  assert.equal(stateOf(job({ status: "paused" })).text, "pausing");
  assert.equal(stateOf(job({ status: "paused", state: "idle" })).text, "paused");
  assert.equal(stateOf(job({ status: "deleted", state: "success" })).text, "done");
});

test("only what the server accepts is offered", () => {
  assert.deepEqual(actionsOf(job()), ["pause"]);
  assert.deepEqual(actionsOf(job({ state: "idle" })), ["pause", "run"]);
  assert.deepEqual(actionsOf(job({ status: "paused", state: "idle" })), ["resume"]);
  assert.deepEqual(actionsOf(job({ state: "failed" })), ["resume"]);
  assert.deepEqual(actionsOf(job({ status: "deleted", state: "success" })), []);
  assert.deepEqual(actionsOf(job({ unknown_kind: true })), []);
});

test("a cursor is a time or an id", () => {
  assert.equal(cursorOf(job()), "2026-11-15 04:00");
  assert.equal(cursorOf(job({ cursor: { from_id: 1, to_id: 5_000_000, last_id: 2_400_000 } })), "id 2,400,000");
  assert.equal(cursorOf(job({ cursor: { page: 0 } })), "");
});

test("a countdown goes by whole seconds and ends with 0", () => {
  assert.deepEqual([59_200, 1, 0, -5000, 125_000].map(countdown), ["60 s", "1 s", "0 s", "0 s", "2 m 5 s"]);
});

test("uptime is known only from the first event on", () => {
  const events = [{ at_ms: 40, what: "opened" }, { at_ms: 60, what: "closed" }, { at_ms: 70, what: "opened" }];
  assert.deepEqual(stretches(events, true, 0, 100), [
    { from: 0, until: 40, up: null }, { from: 40, until: 60, up: true }, { from: 60, until: 70, up: false }, { from: 70, until: 100, up: true },
  ]);
  assert.equal(shareUp(stretches(events, true, 0, 100)), 50 / 60);
});

test("what was closed first had been open, and a state without events lasts", () => {
  assert.deepEqual(stretches([{ at_ms: 50, what: "closed" }], false, 0, 100).map((one) => one.up), [true, false]);
  assert.deepEqual(stretches([], true, 0, 100), [{ from: 0, until: 100, up: true }]);
  assert.equal(shareUp(stretches([], false, 0, 100)), null);
  assert.deepEqual(stretches([{ at_ms: -5, what: "opened" }], true, 0, 100), [{ from: 0, until: 100, up: true }]);
});

test("what was before the oldest of too many events is not known", () => {
  const events = [{ at_ms: 50, what: "closed" }, { at_ms: 60, what: "opened" }];
  assert.deepEqual(stretches(events, true, 0, 100, true).map((one) => one.up), [null, false, true]);
  assert.equal(shareUp(stretches(events, true, 0, 100, true)), 0.8);
});

test("stretches cover the whole time without overlap, whatever the events", () => {
  for (let seed = 1; seed < 200; seed += 1) {
    const events = Array.from({ length: seed % 9 }, (_, i) => ({ at_ms: (seed * (i + 3) * 37) % 130 - 10, what: (seed + i) % 2 ? "opened" : "closed" }))
      .sort((a, b) => a.at_ms - b.at_ms);
    const found = stretches(events, seed % 2 === 0, 0, 100);
    assert.equal(found[0].from, 0);
    assert.equal(found.at(-1).until, 100);
    found.forEach((one, i) => assert.ok(one.from < one.until && (!i || found[i - 1].until === one.from)));
  }
});

const line = (n, changes = {}) => ({ at_ms: n, level: "info", process: "work-0", event: "JobDone", fields: { n }, ...changes });
const newestFirst = (...lines) => lines.reverse();
const shown = (log) => log.lines.map((one) => (one.hole ? "hole" : one.at_ms));

test("lines that overlap are joined without doubles", () => {
  const log = new LogLines(100);
  assert.equal(log.add(newestFirst(line(1), line(2), line(3))), 3);
  assert.equal(log.add(newestFirst(line(2), line(3), line(4))), 1);
  assert.equal(log.add(newestFirst(line(2), line(3), line(4))), 0);
  assert.deepEqual(shown(log), [1, 2, 3, 4]);
});

test("a hole is marked where nothing overlaps", () => {
  const log = new LogLines(100);
  log.add(newestFirst(line(1), line(2)));
  log.add(newestFirst(line(7), line(8)));
  log.add(newestFirst(line(7), line(8), line(9)));
  assert.deepEqual(shown(log), [1, 2, "hole", 7, 8, 9]);
});

test("two equal lines are two lines", () => {
  const log = new LogLines(100);
  log.add(newestFirst(line(1), line(1)));
  log.add(newestFirst(line(1), line(1), line(1)));
  assert.deepEqual(shown(log), [1, 1, 1]);
  assert.equal(new Set(log.lines.map((one) => one.key)).size, 3);
});

test("older lines are those before all that are known", () => {
  const log = new LogLines(100);
  log.add(newestFirst(line(5), line(6)));
  const older = log.older(newestFirst(line(3), line(4), line(5), line(5, { event: "Other" }), line(6), line(7)));
  assert.deepEqual(older.map((one) => [one.at_ms, one.event]), [[3, "JobDone"], [4, "JobDone"], [5, "Other"]]);
  assert.deepEqual(shown(log), [5, 6]);
});

test("the oldest lines go first, and memory is bounded", () => {
  const log = new LogLines(50);
  for (let n = 0; n < 5000; n += 1) log.add(newestFirst(line(n - 1), line(n)));
  assert.equal(log.lines.length, 50);
  assert.equal(log.lines.at(-1).at_ms, 4999);
  assert.ok(log.known.size <= 51);
});

test("a filter is by least level, process and words", () => {
  const all = { level: "", process: "", text: "" };
  assert.ok(matches(line(1), all));
  assert.ok(!matches(line(1), { ...all, level: "warning" }));
  assert.ok(matches(line(1, { level: "error" }), { ...all, level: "warning" }));
  assert.ok(!matches(line(1), { ...all, process: "serve" }));
  assert.ok(matches(line(17), { ...all, text: "JOBDONE 17" }));
  assert.ok(matches({ hole: true }, { ...all, level: "error" }));
  assert.equal(summary({ a: "x", b: [1] }), "a=x  b=[1]");
});

const process = (id, changes = {}) => ({
  id, kind: "collect", name: id, host: "vm", pid: 1, folder: "f", state: "running", health: "healthy", gone: false, doing: "", started_ms: 1,
  last_data_ms: null, silent_ms: 0, problems: [], restarts: null, children: [], ...changes,
});
const child = (name, pid, changes = {}) => ({ name, state: "running", pid, since_ms: 5, restarts: 0, reason: "", lines_dropped: 0, ...changes });

test("a supervised process is below its supervisor, once", () => {
  const rows = treeOf([
    process("own", { pid: 9 }), process("up", { pid: 1, kind: "up", children: [child("collect:a", 2), child("serve", null, { state: "waiting", restarts: 2, reason: "killed" })] }),
    process("a", { pid: 2, health: "impaired", problems: ["a stale book"] }), process("same-pid", { pid: 2, host: "other" }),
  ]);
  assert.deepEqual(rows.map((one) => [one.level, one.name, one.state]), [[0, "up", "running"], [1, "collect:a", "impaired"], [1, "serve", "waiting"], [0, "own", "running"], [0, "same-pid", "running"]]);
  assert.deepEqual(rows[1].problems, ["a stale book"]);
  assert.deepEqual(rows[2].problems, ["Last restart: killed"]);
  assert.equal(new Set(rows.map((one) => one.key)).size, rows.length);
});

test("a process that should run and does not is gone", () => {
  const [row] = treeOf([process("a", { gone: true, silent_ms: 60_000 })]);
  assert.equal(row.state, "gone");
  assert.match(row.problems[0], /No status for 1 m/);
});

test("after signing in only paths of this server are opened", () => {
  assert.equal(nextPath("/jobs?state=failed"), "/jobs?state=failed");
  for (const bad of [null, "", "//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/login?next=/"]) assert.equal(nextPath(bad), "/");
});
