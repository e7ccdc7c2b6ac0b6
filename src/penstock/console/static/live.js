// @ts-check
// The live WebSocket: which topics are watched, what was missed, and whether the page is live.
//
//   const live = new Live({url, onUpdate, onState, onHello});
//   live.watch(["overview"]);      replaces the topics; asked for again after each reconnection
//   live.now()                     the server's clock, whatever this browser's clock says
//   live.state                     {live, since_ms, missed, attempt, retry_at_ms, skew_ms}
//   live.hurry()                   tries at once instead of after the pause
//   live.close()
//
// onUpdate({topic, data, error, seq, at_ms, missed}): `missed` updates of this topic were never
// received. onState(state) is called when `live` changes, and when something was missed.
// "Not live" means: the socket is closed, or nothing (not even a beat) came for SILENT_MS.
// Sockets and timers are given by tests; see `Options`.

export const SILENT_MS = 1000;
/** A socket that says nothing this long is given up: its connection may be half open. */
export const DEAD_MS = 4000;
export const FIRST_DELAY_MS = 250;
export const LAST_DELAY_MS = 8000;
const CHECK_MS = 100;

/**
 * @typedef {{topic: string, data: any, error: string | null, seq: number, at_ms: number, missed: number}} Update
 * @typedef {{live: boolean, since_ms: number, missed: number, attempt: number, retry_at_ms: number | null, skew_ms: number}} State
 * @typedef {{topic: "hello", version: string, started_ms: number, scope: "read" | "control", at_ms: number}} Hello
 * @typedef {Object} Options
 * @property {string} url
 * @property {(update: Update) => void} onUpdate
 * @property {(state: State) => void} onState
 * @property {(hello: Hello) => void} [onHello]
 * @property {(event: {code: number}) => void} [onClosed]  each time a socket ended
 * @property {() => boolean} [allowed]  whether the server would accept a socket; with it, `hurry()` makes the first attempt
 * @property {(url: string) => WebSocket} [open]
 * @property {() => number} [clock]
 * @property {() => number} [random]
 */

/**
 * The pause before an attempt: 250 ms, doubling to 8 s, each shortened by up to a quarter so that
 * the pages of one server that went away do not all return at once.
 * @param {number} attempt  0 for the first
 * @param {number} chance  0 to 1
 */
export function delay(attempt, chance) {
  const full = Math.min(FIRST_DELAY_MS * 2 ** Math.min(attempt, 10), LAST_DELAY_MS);
  return full * (1 - chance / 4);
}

/** The last sequence number of each topic. */
export class Sequences {
  constructor() {
    /** @type {Map<string, number>} */
    this.last = new Map();
  }

  /**
   * @param {string} topic
   * @param {number} seq
   * @returns {number}  how many updates between the last one and this one were not received
   */
  see(topic, seq) {
    const last = this.last.get(topic);
    this.last.set(topic, seq);
    return last === undefined || seq <= last ? 0 : seq - last - 1;
  }

  /** @param {string[]} topics  the numbers of all others are forgotten */
  keep(topics) {
    for (const topic of this.last.keys()) if (!topics.includes(topic)) this.last.delete(topic);
  }

  clear() {
    this.last.clear();
  }
}

export class Live {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.clock = options.clock ?? (() => Date.now());
    this.random = options.random ?? Math.random;
    this.open = options.open ?? ((url) => new WebSocket(url));
    this.sequences = new Sequences();
    /** @type {string[]} */
    this.topics = [];
    /** @type {WebSocket | null} */
    this.socket = null;
    this.heard = this.clock();
    this.startedMs = 0;
    this.closed = false;
    /** @type {State} */
    this.state = {
      live: false, since_ms: this.clock(), missed: 0, attempt: 0, retry_at_ms: null, skew_ms: 0,
    };
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.retry = undefined;
    this.checking = setInterval(() => this.check(), CHECK_MS);
    if (!options.allowed) this.connect();
  }

  /** The server's time. */
  now() {
    return this.clock() + this.state.skew_ms;
  }

  /** @param {string[]} topics */
  watch(topics) {
    this.topics = [...topics];
    this.sequences.keep(topics);
    this.state = { ...this.state, missed: 0 };
    this.ask();
  }

  /** Does not wait for the next attempt, since now there is a reason to believe in it. */
  hurry() {
    if (this.socket || this.closed) return;
    clearTimeout(this.retry);
    this.connect();
  }

  close() {
    this.closed = true;
    clearInterval(this.checking);
    clearTimeout(this.retry);
    this.socket?.close();
  }

  ask() {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify({ watch: this.topics }));
  }

  connect() {
    this.retry = undefined;
    if (this.options.allowed && !this.options.allowed()) return this.lost(0);
    const socket = this.open(this.options.url);
    this.socket = socket;
    this.heard = this.clock();
    socket.onopen = () => this.ask();
    socket.onmessage = (event) => {
      if (socket === this.socket) this.receive(event.data);
    };
    socket.onclose = (event) => {
      if (socket === this.socket) this.lost(event.code);
    };
  }

  /** @param {number} code */
  lost(code) {
    this.socket = null;
    if (this.closed) return;
    const pause = delay(this.state.attempt, this.random());
    this.retry = setTimeout(() => this.connect(), pause);
    this.change({
      live: false, attempt: this.state.attempt + 1, retry_at_ms: this.clock() + pause,
    });
    this.options.onClosed?.({ code });
  }

  /** Called often: says that nothing came for too long, and gives a dead socket up. */
  check() {
    // A clock that was set back or forward is silence too: the next hello measures it again.
    const silence = Math.abs(this.clock() - this.heard);
    if (this.state.live && silence >= SILENT_MS) this.change({ live: false });
    if (this.socket && silence >= DEAD_MS) {
      const socket = this.socket;
      this.socket = null;
      socket.close();
      this.lost(0);
    }
  }

  /** @param {string} text */
  receive(text) {
    this.heard = this.clock();
    const message = JSON.parse(text);
    if (message.topic === "hello") this.greet(message);
    if (!this.state.live || this.state.attempt) {
      this.change({ live: true, attempt: 0, retry_at_ms: null });
    }
    if (message.topic === "hello" || message.topic === "beat") return;
    const missed = typeof message.seq === "number" ? this.sequences.see(message.topic, message.seq) : 0;
    if (!this.topics.includes(message.topic)) return;
    if (missed) this.change({ missed: this.state.missed + missed });
    this.options.onUpdate({
      topic: message.topic,
      data: message.data ?? null,
      error: message.error ?? null,
      seq: message.seq ?? 0,
      at_ms: message.at_ms ?? this.now(),
      missed,
    });
  }

  /** @param {Hello} hello */
  greet(hello) {
    if (hello.started_ms !== this.startedMs) this.sequences.clear();
    this.startedMs = hello.started_ms;
    this.state = { ...this.state, skew_ms: hello.at_ms - this.clock() };
    this.options.onHello?.(hello);
  }

  /** @param {Partial<State>} changes */
  change(changes) {
    const before = this.state.live;
    this.state = { ...this.state, ...changes };
    // The silence began when the last message came, not when it was noticed.
    if (before !== this.state.live) this.state.since_ms = this.state.live ? this.clock() : this.heard;
    this.options.onState(this.state);
  }
}
