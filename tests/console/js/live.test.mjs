import assert from "node:assert/strict";
import test, { mock } from "node:test";

import { delay, Live, Sequences } from "../../../src/penstock/console/static/live.js";

class Socket {
  static all = [];
  sent = [];
  readyState = 0;
  constructor() {
    Socket.all.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.readyState = 3;
  }
  opens() {
    this.readyState = 1;
    this.onopen();
  }
  says(message) {
    this.onmessage({ data: JSON.stringify(message) });
  }
  drops() {
    this.readyState = 3;
    this.onclose({ code: 1006 });
  }
}

function start(options = {}) {
  Socket.all = [];
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: 1_000_000 });
  const seen = { updates: [], states: [], hellos: [] };
  const live = new Live({
    url: "ws://test", open: () => new Socket(), random: () => 0,
    onUpdate: (update) => seen.updates.push(update),
    onState: (state) => seen.states.push(state),
    onHello: (hello) => seen.hellos.push(hello),
    ...options,
  });
  const hello = { topic: "hello", version: "1", started_ms: 5, scope: "control", at_ms: 1_000_000 };
  return { live, seen, hello, socket: () => Socket.all.at(-1), tick: (ms) => mock.timers.tick(ms) };
}

test.afterEach(() => mock.timers.reset());

test("pauses double from 250 ms to 8 s, and chance only shortens them", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 6, 100].map((n) => delay(n, 0)), [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
  for (let attempt = 0; attempt < 12; attempt += 1) {
    const pause = delay(attempt, 0.999);
    assert.ok(pause <= delay(attempt, 0) && pause > delay(attempt, 0) * 0.74);
  }
});

test("sequence numbers tell what was missed; repeats and the first tell nothing", () => {
  const seen = new Sequences();
  assert.deepEqual([7, 8, 8, 12, 3, 4].map((seq) => seen.see("a", seq)), [0, 0, 0, 3, 0, 0]);
  assert.equal(seen.see("b", 100), 0);
  seen.keep(["b"]);
  assert.equal(seen.see("a", 90), 0);
  assert.equal(seen.see("b", 102), 1);
});

test("topics are asked for when the socket opens, when they change, and after each reconnection", () => {
  const { live, hello, socket, tick } = start();
  live.watch(["overview"]);
  socket().opens();
  socket().says(hello);
  live.watch(["jobs"]);
  assert.deepEqual(socket().sent, [{ watch: ["overview"] }, { watch: ["jobs"] }]);
  socket().drops();
  tick(250);
  assert.equal(Socket.all.length, 2);
  socket().opens();
  assert.deepEqual(socket().sent, [{ watch: ["jobs"] }]);
  live.close();
});

test("a second of silence is not live; a beat is enough to be live again", () => {
  const { live, seen, hello, socket, tick } = start();
  socket().opens();
  socket().says(hello);
  assert.equal(live.state.live, true);
  tick(900);
  assert.equal(live.state.live, true);
  tick(100);
  assert.equal(live.state.live, false);
  assert.equal(live.state.since_ms, 1_000_000);
  socket().says({ topic: "beat", at_ms: 1 });
  assert.equal(live.state.live, true);
  assert.deepEqual(seen.states.map((state) => state.live), [true, false, true]);
  live.close();
});

test("a socket that is silent for long is replaced, and its late messages are ignored", () => {
  const { live, seen, hello, socket, tick } = start();
  live.watch(["overview"]);
  const old = socket();
  old.opens();
  old.says(hello);
  tick(4000);
  tick(250);
  assert.equal(Socket.all.length, 2);
  old.says({ topic: "overview", seq: 1, at_ms: 1, data: {} });
  old.drops();
  assert.equal(seen.updates.length, 0);
  assert.equal(Socket.all.length, 2);
  live.close();
});

test("attempts go on with longer pauses until a message comes, then begin at the shortest", () => {
  const { live, hello, socket, tick } = start();
  const pauses = [];
  for (let i = 0; i < 7; i += 1) {
    const before = Date.now();
    socket().drops();
    pauses.push(live.state.retry_at_ms - before);
    tick(pauses.at(-1));
  }
  assert.deepEqual(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000]);
  socket().opens();
  socket().says(hello);
  assert.equal(live.state.attempt, 0);
  socket().drops();
  assert.equal(live.state.retry_at_ms - Date.now(), 250);
  live.close();
});

test("what was missed is told with the update, and counted until other topics are watched", () => {
  const { live, seen, hello, socket } = start();
  live.watch(["overview"]);
  socket().opens();
  socket().says(hello);
  for (const seq of [4, 5, 9]) socket().says({ topic: "overview", seq, at_ms: 1, data: { seq } });
  assert.deepEqual(seen.updates.map((update) => update.missed), [0, 0, 3]);
  assert.equal(live.state.missed, 3);
  live.watch(["jobs"]);
  assert.equal(live.state.missed, 0);
  socket().says({ topic: "overview", seq: 10, at_ms: 1, data: {} });
  assert.equal(seen.updates.length, 3);
  live.close();
});

test("numbers of a server that was started anew do not count as missed", () => {
  const { live, seen, hello, socket, tick } = start();
  live.watch(["overview"]);
  socket().opens();
  socket().says(hello);
  socket().says({ topic: "overview", seq: 4, at_ms: 1, data: {} });
  socket().drops();
  tick(250);
  socket().opens();
  socket().says({ ...hello, started_ms: 6 });
  socket().says({ topic: "overview", seq: 90, at_ms: 1, data: {} });
  assert.deepEqual(seen.updates.map((update) => update.missed), [0, 0]);
  socket().drops();
  tick(250);
  socket().opens();
  socket().says({ ...hello, started_ms: 6 });
  socket().says({ topic: "overview", seq: 92, at_ms: 1, data: {} });
  assert.equal(seen.updates.at(-1).missed, 1);
  live.close();
});

test("the server's clock is used, whatever this one says", () => {
  const { live, hello, socket, tick } = start();
  socket().opens();
  socket().says({ ...hello, at_ms: 1_000_000 - 3_600_000 });
  tick(10);
  assert.equal(live.now(), 1_000_000 - 3_600_000 + 10);
  live.close();
});

test("an error of a topic is given as words", () => {
  const { live, seen, hello, socket } = start();
  live.watch(["market/x/Y"]);
  socket().opens();
  socket().says(hello);
  socket().says({ topic: "market/x/Y", error: "not collected" });
  assert.deepEqual([seen.updates[0].error, seen.updates[0].data], ["not collected", null]);
  live.close();
});

test("a pause is cut short when asked", () => {
  const { live, socket } = start();
  socket().drops();
  socket();
  live.hurry();
  assert.equal(Socket.all.length, 2);
  live.hurry();
  assert.equal(Socket.all.length, 2);
  live.close();
});

test("a clock that is set back is noticed, and the next hello measures it", () => {
  const at = { ms: 1_000_000 };
  const { live, hello, socket, tick } = start({ clock: () => at.ms });
  socket().opens();
  socket().says(hello);
  at.ms -= 3_600_000;
  tick(100);
  assert.equal(live.state.live, false);
  tick(300);
  socket().opens();
  socket().says(hello);
  assert.equal(live.state.live, true);
  assert.equal(live.now(), hello.at_ms);
});
