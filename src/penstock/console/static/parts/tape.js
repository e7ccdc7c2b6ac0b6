// @ts-check
// The tape: the newest trades, newest on top. Rows are made once and written over.
//
//   const t = tape(price, quantity); t.add(trades, missedUpdates); t.isEmpty(); t.element
// `price` and `quantity` give the text of each.
// Hooks: [data-card=tape] li[data-trade=ID], li[data-missed].

import { timeTitle, utcTime } from "../format.js";
import { frame, h, setAttribute, setText } from "./dom.js";

const MOST = 50;

/** @typedef {{id: string, at_ms: number, price: string, quantity: string, side: string | null}} Trade */
/** @typedef {Trade | {missed: number}} Line */

/**
 * The lines of the tape after more trades. Pure; a trade that is already there is not added again.
 * @param {Line[]} lines  newest first
 * @param {Trade[]} trades  in any order
 * @param {number} missed
 * @returns {Line[]}
 */
export function addTrades(lines, trades, missed) {
  const known = new Set(lines.map((line) => ("id" in line ? line.id : "")));
  const fresh = trades.filter((trade) => !known.has(trade.id)).sort((a, b) => b.at_ms - a.at_ms);
  /** @type {Line[]} */
  const note = missed && lines.length ? [{ missed }] : [];
  return [...fresh, ...note, ...lines].slice(0, MOST);
}

/** @param {(text: string) => string} showPrice @param {(text: string) => string} showQuantity */
export function tape(showPrice, showQuantity) {
  /** @type {Line[]} */
  let lines = [];
  const rows = Array.from({ length: MOST }, () =>
    h("li", { hidden: true }, h("time", {}), h("span", { class: "tape-side" }), h("span", { class: "num" }), h("span", { class: "num" })));
  const element = h("ol", { class: "tape", "aria-label": "Newest trades", tabindex: 0 }, ...rows);

  const draw = frame(() => rows.forEach((row, i) => {
    const line = lines[i];
    row.hidden = !line;
    if (!line) return;
    const [at, side, price, quantity] = row.children;
    if ("missed" in line) {
      row.className = "is-missed";
      setAttribute(row, "data-trade", null);
      setAttribute(row, "data-missed", String(line.missed));
      [at, side, quantity].forEach((cell) => setText(cell, ""));
      setText(price, `${line.missed} updates skipped`);
      return;
    }
    row.className = line.side === "buy" ? "buy" : line.side === "sell" ? "sell" : "";
    setAttribute(row, "data-missed", null);
    setText(price, showPrice(line.price));
    setText(quantity, showQuantity(line.quantity));
    if (row.dataset.trade === line.id) return;
    row.dataset.trade = line.id;
    setText(at, utcTime(line.at_ms, true));
    setAttribute(at, "datetime", new Date(line.at_ms).toISOString());
    setAttribute(at, "title", timeTitle(line.at_ms));
    setText(side, line.side === "buy" ? "▲ buy" : line.side === "sell" ? "▼ sell" : "");
  }));

  return {
    element,
    /** @param {Trade[]} trades @param {number} missed */
    add(trades, missed) {
      if (!trades.length && !missed) return;
      lines = addTrades(lines, trades, missed);
      draw();
    },
    isEmpty: () => !lines.length,
  };
}
