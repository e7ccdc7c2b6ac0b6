// @ts-check
// Lines of logs as they arrive: joined without doubles, with a mark where some were missed. Pure.
//
//   const log = new LogLines(2000);
//   log.add(lines)       the newest lines, newest first as the server sends them; returns how many were new
//   log.older(lines)     of lines that were asked for, newest first: those before all that are known, oldest first
//   log.lines            oldest first: [{key, at_ms, level, process, event, fields} | {key, hole: true, at_ms}]
//   matches(line, {level, process, text})
//
// An update has the newest lines only. If none of them was known before, lines in between may be
// missing, and the mark says so.

const LEVELS = ["debug", "info", "warning", "error", "critical"];

/** @typedef {{key: string, at_ms: number, level: string, process: string, event: string, fields: Record<string, any>, hole?: false}} Line */
/** @typedef {{key: string, at_ms: number, hole: true}} Hole */

export class LogLines {
  /** @param {number} most */
  constructor(most) {
    this.most = most;
    /** @type {(Line | Hole)[]} */
    this.lines = [];
    /** How often each line is known: two equal ones in the same millisecond are two. @type {Map<string, number>} */
    this.known = new Map();
    this.holes = 0;
  }

  /** @param {any[]} next @returns {number} */
  add(next) {
    const found = /** @type {Map<string, number>} */ (new Map());
    /** @type {Line[]} */
    const fresh = [];
    let overlaps = 0;
    for (const line of [...next].reverse()) {
      const text = keyOf(line);
      const nth = (found.get(text) ?? 0) + 1;
      found.set(text, nth);
      if (nth <= (this.known.get(text) ?? 0)) overlaps += 1;
      else fresh.push({ ...line, key: `${text}#${nth}` });
    }
    if (!fresh.length) return 0;
    if (this.lines.length && !overlaps) {
      this.holes += 1;
      this.lines.push({ key: `hole#${this.holes}`, at_ms: fresh[0].at_ms, hole: true });
    }
    for (const [text, nth] of found) this.known.set(text, Math.max(nth, this.known.get(text) ?? 0));
    this.lines.push(...fresh);
    this.shorten();
    return fresh.length;
  }

  /** @param {any[]} asked @returns {Line[]} */
  older(asked) {
    const first = this.lines.find((line) => !line.hole);
    const page = new LogLines(asked.length);
    page.add(first ? asked.filter((line) => line.at_ms <= first.at_ms && !this.known.has(keyOf(line))) : asked);
    return page.lines.flatMap((line) => (line.hole ? [] : [line]));
  }

  shorten() {
    for (const gone of this.lines.splice(0, Math.max(0, this.lines.length - this.most))) {
      if (!gone.hole) this.known.delete(gone.key.slice(0, gone.key.lastIndexOf("#")));
    }
  }
}

/** @param {any} line @returns {string} */
function keyOf(line) {
  return JSON.stringify([line.at_ms, line.process, line.level, line.event, line.fields]);
}

/**
 * @param {Line | Hole} line
 * @param {{level: string, process: string, text: string}} asked  level: this one and worse
 */
export function matches(line, { level, process, text }) {
  if (line.hole) return true;
  if (level && LEVELS.indexOf(line.level) < LEVELS.indexOf(level)) return false;
  if (process && line.process !== process) return false;
  if (!text) return true;
  const whole = `${line.event} ${line.process} ${JSON.stringify(line.fields)}`.toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => whole.includes(word));
}

/** @param {Record<string, any>} fields @returns {string}  the fields in one line */
export function summary(fields) {
  return Object.entries(fields ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ");
}
