// @ts-check
// Chooses one of many markets by typing: a combobox that shows the first MOST matches.
//
//   const choose = marketChooser({chosen: (market) => …});
//   choose.update([{exchange, symbol}])   choose.set({exchange, symbol})   choose.element
// Hooks: input[data-filter][data-market-input], [data-market-list] [role=option][data-market="EXCHANGE SYMBOL"].

import { count } from "../format.js";
import { h, icon, replace } from "./dom.js";
import { filterRows } from "./rows.js";

const MOST = 50;

/**
 * @typedef {{exchange: string, symbol: string}} Market
 * @typedef {{element: HTMLElement, update: (all: Market[]) => void, set: (market: Market) => void}} Chooser
 */

/** @param {{chosen: (market: Market) => void}} options  @returns {Chooser} */
export function marketChooser({ chosen }) {
  /** @type {Market[]} */
  let markets = [];
  /** @type {Market[]} */
  let matches = [];
  /** @type {Market | null} */
  let current = null;
  let active = 0;

  const list = h("ul", { id: "market-list", class: "options", role: "listbox", "aria-label": "Markets", "data-market-list": true, hidden: true });
  const input = h("input", {
    type: "text", class: "input", role: "combobox", "aria-label": "Market: type part of a symbol or exchange",
    "aria-expanded": "false", "aria-controls": "market-list", "aria-autocomplete": "list", autocomplete: "off",
    spellcheck: "false", "data-filter": true, "data-market-input": true, placeholder: "Choose a market",
    onfocus: () => {
      input.select();
      show();
    },
    oninput: show,
    onblur: close,
    onkeydown: onKey,
  });
  const element = h("div", { class: "search market-chooser" }, icon("search"), input, list);

  function label(/** @type {Market} */ market) {
    return `${market.symbol} ${market.exchange}`;
  }

  function show() {
    const typed = current && input.value === label(current) ? "" : input.value;
    // btcusdt finds BTC/USDT
    matches = filterRows(markets, typed, (one) => `${one.exchange} ${one.symbol} ${one.symbol.replace(/\W/g, "")}`);
    active = Math.max(0, typed ? 0 : matches.findIndex((one) => current && label(one) === label(current)));
    draw();
  }

  function draw() {
    const from = Math.max(0, Math.min(active - 5, matches.length - MOST));
    const shown = matches.slice(from, from + MOST);
    replace(list,
      ...shown.map((one, i) => h("li", {
        id: `market-${from + i}`, role: "option", "aria-selected": String(from + i === active), "data-market": `${one.exchange} ${one.symbol}`,
        // On pointerdown, since the input loses its focus before a click.
        onpointerdown: (/** @type {Event} */ event) => {
          event.preventDefault();
          take(one);
        },
      }, h("span", {}, one.symbol), h("span", { class: "muted" }, one.exchange))),
      matches.length === 0 ? h("li", { class: "note", role: "option", "aria-disabled": "true", "aria-selected": "false" }, markets.length ? "No market matches" : "No market is collected yet") : null,
      matches.length > shown.length ? h("li", { class: "note", role: "option", "aria-disabled": "true", "aria-selected": "false" }, `${count(matches.length - shown.length)} more: type to narrow`) : null);
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (matches.length) input.setAttribute("aria-activedescendant", `market-${active}`);
    else input.removeAttribute("aria-activedescendant");
    list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    input.value = current ? label(current) : "";
  }

  /** @param {Market} market */
  function take(market) {
    current = market;
    close();
    input.blur();
    chosen(market);
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const to = /** @type {Record<string, number>} */ ({ ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + 10, PageUp: active - 10 })[event.key];
    if (to !== undefined && matches.length) {
      active = Math.max(0, Math.min(matches.length - 1, to));
      draw();
    } else if (event.key === "Enter" && matches[active]) take(matches[active]);
    else if (event.key === "Escape") input.blur();
    else return;
    event.preventDefault();
  }

  return {
    element,
    /** @param {Market[]} all */
    update(all) {
      markets = all;
      if (document.activeElement === input) show();
    },
    /** @param {Market} market */
    set(market) {
      current = market;
      if (document.activeElement !== input) input.value = label(market);
    },
  };
}
