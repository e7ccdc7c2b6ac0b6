// @ts-check
// The tape: the newest trades, newest on top. Rows are made once and written over.
//
//   const t = tape(price, quantity); t.update(trades); t.element      trades: newest first
// `price` and `quantity` give the text of each.
// Hooks: [data-card=tape] li[data-trade=ID].

import { timeTitle, utcTime } from "../format.js";
import { frame, h, setAttribute, setText } from "./dom.js";

const MOST = 50;

/** @typedef {{id: string, at_ms: number, price: string, quantity: string, side: string | null}} Trade */
/** @param {(text: string) => string} showPrice @param {(text: string) => string} showQuantity */
export function tape(showPrice, showQuantity) {
  /** @type {Trade[]} */
  let trades = [];
  const rows = Array.from({ length: MOST }, () =>
    h("li", { hidden: true }, h("time", {}), h("span", { class: "tape-side" }), h("span", { class: "num" }), h("span", { class: "num" })));
  const element = h("ol", { class: "tape", "aria-label": "Newest trades", tabindex: 0 }, ...rows);

  const draw = frame(() => rows.forEach((row, i) => {
    const trade = trades[i];
    row.hidden = !trade;
    if (!trade) return;
    const [at, side, price, quantity] = row.children;
    setText(price, showPrice(trade.price));
    setText(quantity, showQuantity(trade.quantity));
    if (row.dataset.trade === trade.id) return;
    row.dataset.trade = trade.id;
    row.className = trade.side === "buy" ? "buy" : trade.side === "sell" ? "sell" : "";
    setText(at, utcTime(trade.at_ms, true));
    setAttribute(at, "datetime", new Date(trade.at_ms).toISOString());
    setAttribute(at, "title", timeTitle(trade.at_ms));
    setText(side, trade.side === "buy" ? "▲ buy" : trade.side === "sell" ? "▼ sell" : "");
  }));

  return {
    element,
    /** @param {Trade[]} next */
    update(next) {
      trades = next;
      draw();
    },
  };
}
