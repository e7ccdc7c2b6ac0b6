// @ts-check
// The tape: the newest trades, newest on top. Rows are made once and written over.
//
//   const t = tape(price, quantity); t.update(trades, look); t.element      trades: newest first
// `price` and `quantity` give the text of each; when `look` changes all rows are written again.
// Hooks: [data-card=tape] li[data-trade=ID].

import { timeTitle, utcTime } from "../format.js";
import { frame, h, setAttribute, setText } from "./dom.js";

const MOST = 50;

/** @typedef {{id: string, at_ms: number, price: string, quantity: string, side: string | null}} Trade */
/**
 * How many trades are new at the top; all of them if none is known.
 * @param {string[]} shown  ids, newest first
 * @param {Trade[]} trades
 */
export function freshOf(shown, trades) {
  const at = trades.findIndex((trade) => trade.id === shown[0]);
  const isSame = at >= 0 && trades.slice(at).every((trade, i) => i >= shown.length || trade.id === shown[i]);
  return isSame ? at : trades.length;
}

/** @param {(text: string) => string} showPrice @param {(text: string) => string} showQuantity */
export function tape(showPrice, showQuantity) {
  /** @type {Trade[]} */
  let trades = [];
  /** @type {string[]} */
  let shown = [];
  let drawnLook = "";
  const element = h("ol", { class: "tape", "aria-label": "Newest trades", tabindex: 0 });

  /** Rows move down as they are, so that only new trades are written. */
  const draw = frame(() => {
    const fresh = freshOf(shown, trades);
    if (fresh === 0 && shown.length === trades.length) return;
    for (const trade of trades.slice(0, fresh).reverse()) {
      const row = element.children.length >= MOST ? /** @type {HTMLElement} */ (element.lastElementChild) : line();
      write(row, trade);
      element.prepend(row);
    }
    while (element.children.length > trades.length) element.lastElementChild?.remove();
    shown = trades.map((trade) => trade.id);
  });

  function line() {
    return h("li", {}, h("time", {}), h("span", { class: "tape-side" }), h("span", { class: "num" }), h("span", { class: "num" }));
  }

  /** @param {HTMLElement} row @param {Trade} trade */
  function write(row, trade) {
    const [at, side, price, quantity] = row.children;
    row.dataset.trade = trade.id;
    row.className = trade.side === "buy" ? "buy" : trade.side === "sell" ? "sell" : "";
    setText(at, utcTime(trade.at_ms, true));
    setAttribute(at, "datetime", new Date(trade.at_ms).toISOString());
    setAttribute(at, "title", timeTitle(trade.at_ms));
    setText(side, trade.side === "buy" ? "▲ buy" : trade.side === "sell" ? "▼ sell" : "");
    setText(price, showPrice(trade.price));
    setText(quantity, showQuantity(trade.quantity));
  }

  return {
    element,
    /** @param {Trade[]} next @param {string} look */
    update(next, look) {
      trades = next.slice(0, MOST);
      if (look !== drawnLook) shown = [];
      drawnLook = look;
      draw();
    },
  };
}
