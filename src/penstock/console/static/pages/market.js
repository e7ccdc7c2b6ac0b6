// @ts-check
// Market: candles with volume and holes, depth, tape, spread, and the state of the book.
//
// Hooks: input[data-market-input], [data-market="EXCHANGE SYMBOL"], [data-choice=interval] button[data-value],
// [data-field] badge, why, sequence, last_ms, candle, and with the API's text in data-value: bid, ask, spread,
// spread_bps; [data-chart=candles][data-candles=N],
// [data-chart=depth], [data-trade=ID], [data-action=python], [data-dialog=python] pre, [data-action=copy].

import { ago, decimal, setTime, utc } from "../format.js";
import { badge, setBadge } from "../parts/badge.js";
import { digitsOf, INTERVALS, merge, needed, shorten } from "../parts/candle-model.js";
import { candleChart } from "../parts/candles.js";
import { card, chooser } from "../parts/card.js";
import { depthChart } from "../parts/depth.js";
import { frame, h, icon, refresh, replace, setAttribute, setText } from "../parts/dom.js";
import { marketChooser } from "../parts/market-chooser.js";
import { showPython } from "../parts/python.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";
import { tape } from "../parts/tape.js";
import { path } from "../router.js";

/** @typedef {import("../parts/candle-model.js").Candle} Candle */

const CANDLES = 500;
const AGAIN_MS = 5000;
/** Covers the time for which the server returns a chart again that took long to read, at 1 s. */
const AGAIN = 40;
/** Every so many times all candles and holes are read again, not only the newest. */
const ALL_AGAIN = 12;

/** @param {Record<string, string>} params */
export function title(params) {
  return params.symbol ? `${params.symbol} · ${params.exchange}` : "Market";
}

/** @param {Record<string, string>} params @param {URLSearchParams} query */
export function topics(params, query) {
  return params.symbol ? [topicOf(params, intervalOf(query) ?? "1m")] : [];
}

/** @param {Record<string, string>} params @param {string} interval */
function topicOf({ exchange, symbol }, interval) {
  return `market/${exchange}/${symbol}${interval === "1m" ? "" : `?interval=${interval}`}`;
}

/** @param {URLSearchParams} query  @returns {string | null}  null: the server chooses one */
function intervalOf(query) {
  const asked = query.get("interval");
  return asked !== null && asked in INTERVALS ? asked : null;
}

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  const { exchange, symbol } = ctx.params;
  const choose = marketChooser({ chosen: (market) => ctx.navigate(path("market", market.exchange, market.symbol) + location.search) });
  let isMounted = true;
  void loadMarkets(root, ctx, choose, () => isMounted);
  if (!symbol) {
    root.append(h("div", { class: "market-head row" }, choose.element), h("div", { "data-place": "empty" }, skeleton(6)));
    return { update() {}, unmount: () => (isMounted = false) };
  }
  choose.set({ exchange, symbol });
  const market = mountMarket(root, ctx, choose.element);
  return {
    ...market,
    unmount() {
      isMounted = false;
      market.unmount();
    },
  };
}

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 * @param {import("../parts/market-chooser.js").Chooser} markets
 * @param {() => boolean} isMounted
 */
async function loadMarkets(root, ctx, markets, isMounted) {
  try {
    const { items } = await ctx.api.get("/collected");
    if (!isMounted()) return;
    markets.update(items);
    if (ctx.params.symbol) return;
    const first = items.find((/** @type {any} */ one) => one.symbol.startsWith("BTC/")) ?? items[0];
    if (first) return ctx.navigate(path("market", first.exchange, first.symbol), { replace: true });
    const place = root.querySelector("[data-place=empty]");
    if (place) replace(place, h("div", { class: "card" }, emptyState({
      title: "No market is collected yet",
      text: "Start `penstock demo` for a simulated exchange, or name markets with `penstock collect EXCHANGE SYMBOL`.",
    })));
    setTimeout(() => isMounted() && void loadMarkets(root, ctx, markets, isMounted), AGAIN_MS);
  } catch (error) {
    if (!isMounted()) return;
    const place = root.querySelector("[data-place=empty]");
    const text = error instanceof Error ? error.message : String(error);
    if (place) replace(place, h("div", { class: "card" }, errorState({
      title: "The markets could not be read", text, action: { text: "Try again", run: () => void loadMarkets(root, ctx, markets, isMounted) },
    })));
    else ctx.toast(`The list of markets could not be read: ${text}`, "bad");
  }
}

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 * @param {HTMLElement} choose
 */
function mountMarket(root, ctx, choose) {
  const { exchange, symbol } = ctx.params;
  // Prices of a market have the same number of decimals, so that they stand below each other.
  const digits = { price: 2, quantity: 0 };
  const price = (/** @type {string} */ text) => decimal(shorten(text, digits.price));
  const quantity = (/** @type {string} */ text) => decimal(shorten(text, digits.quantity));
  const facts = factsPart(ctx, price);
  const depthHost = h("div", { class: "depth", "data-chart": "depth", role: "img", "aria-label": "Depth: sums of bids and asks by price" });
  // Hidden until an update says so: before it nobody knows.
  const noBook = h("div", { class: "cover", hidden: true }, emptyState({ title: "No order book", text: "It appears with the first snapshot of the book." }));
  const trades = tape(price, quantity);
  const noTrades = h("div", { hidden: true }, emptyState({ title: "No trades yet", text: "They appear here as they arrive." }));
  const candles = candlesPart(ctx);
  const python = h("button", { type: "button", class: "button", "data-action": "python", onclick: () => showPython(ctx, exchange, symbol, candles.interval() || "1m") }, icon("copy"), "Copy as Python");
  const problem = h("div", {});
  root.append(
    h("div", { class: "market-head" }, choose, facts.badge, facts.sequence, h("span", { class: "grow" }), python),
    problem,
    facts.element,
    h("div", { class: "grid market-grid" },
      candles.element,
      h("div", { class: "stack" },
        card({ title: "Depth", sub: facts.levels, name: "depth" }, h("div", { class: "card-body depth-place" }, depthHost, noBook)),
        card({ title: "Tape", sub: "UTC", name: "tape" }, trades.element, noTrades))));

  /** @type {Awaited<ReturnType<typeof depthChart>> | null} */
  let depth = null;
  let isMounted = true;
  /** @type {any} */
  let latest = null;
  depthChart(depthHost).then((chart) => {
    if (!isMounted) return chart.unmount();
    depth = chart;
    if (latest?.book) chart.update(latest.book);
  }, (error) => replace(depthHost, errorState({ title: "No chart", text: error.message })));
  const draw = frame(() => latest && facts.update(latest));
  const ticking = setInterval(draw, 1000);

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      if (problem.firstChild) replace(problem);
      latest = now;
      const best = [now.bid, now.ask, now.spread].filter(Boolean);
      digits.price = needed([...best, ...now.trades.map((/** @type {any} */ one) => one.price)], digits.price);
      digits.quantity = needed(now.trades.map((/** @type {any} */ one) => one.quantity), digits.quantity);
      trades.update(now.trades, `${digits.price} ${digits.quantity}`);
      noTrades.hidden = now.trades.length > 0;
      candles.live(now);
      noBook.hidden = Boolean(now.book?.bids.length || now.book?.asks.length);
      if (now.book) depth?.update(now.book);
      draw();
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      refresh(problem, h("div", { class: "card" }, errorState({ title: `${symbol} of ${exchange} is not live`, text: words })));
    },
    unmount() {
      isMounted = false;
      clearInterval(ticking);
      candles.unmount();
      depth?.unmount();
    },
  };
}

/** @param {import("../app.js").Context} ctx @param {(text: string) => string} price */
function factsPart(ctx, price) {
  const state = badge("waiting", "off", { "data-field": "badge" });
  const why = h("span", { class: "muted", "data-field": "why" });
  const number = h("span", { class: "mono", "data-field": "sequence" }, "–");
  const names = /** @type {const} */ ([["bid", "Best bid"], ["ask", "Best ask"], ["spread", "Spread"], ["spread_bps", "Spread, bps"]]);
  const values = Object.fromEntries(names.map(([name]) => [name, h("dd", { "data-field": name, class: name === "bid" ? "buy" : name === "ask" ? "sell" : null }, "–")]));
  const last = h("time", { "data-field": "last_ms" }, "–");
  const levels = h("span", {});
  return {
    badge: h("span", { class: "row", role: "status" }, state, why),
    sequence: h("span", { class: "muted" }, "sequence ", number),
    levels,
    element: h("dl", { class: "quote card" },
      ...names.map(([name, text]) => h("div", {}, h("dt", {}, text), values[name])),
      h("div", {}, h("dt", {}, "Last message"), h("dd", {}, last))),
    /** @param {any} now */
    update(now) {
      // Without updates nobody knows whether the book still is what it was.
      const isKnown = ctx.isLive();
      setBadge(state, isKnown ? now.badge : "not live", isKnown ? undefined : "off", now.why ?? "");
      setText(why, (isKnown && now.why) || "");
      setText(number, now.sequence === null ? "–" : String(now.sequence));
      for (const [name] of names) {
        const text = now[name];
        setText(values[name], text === null ? "–" : name === "spread_bps" ? points(text, now.spread) : price(text));
        setAttribute(values[name], "data-value", text);
      }
      setTime(last, now.last_ms, ago(now.last_ms, ctx.now()));
      const count = Math.max(now.book?.bids.length ?? 0, now.book?.asks.length ?? 0);
      setText(levels, count ? `${count} levels a side` : "no book");
    },
  };
}

/**
 * The spread in basis points; what is rounded to nothing is not nothing.
 * @param {string} text
 * @param {string | null} spread
 */
export function points(text, spread) {
  return Number(text) === 0 && Number(spread) > 0 ? "< 0.01" : decimal(text);
}

/** @param {import("../app.js").Context} ctx */
function candlesPart(ctx) {
  const { exchange, symbol } = ctx.params;
  /** Until the server chose one it is empty. */
  let interval = intervalOf(ctx.query) ?? "";
  /** @type {Candle[]} */
  let candles = [];
  /** @type {import("../parts/candles.js").Gap[]} */
  let gaps = [];
  /** @type {Awaited<ReturnType<typeof candleChart>> | null} */
  let chart = null;
  /** @type {AbortController | null} */
  let loading = null;
  let isMounted = true;
  let isHovered = false;
  let drawn = "";

  const legend = h("p", { class: "legend", "data-field": "candle" }, " ");
  const host = h("div", { class: "candles", "data-chart": "candles", role: "img", "aria-label": `Candles of ${symbol}` });
  const nothing = h("div", { class: "cover", hidden: true });
  const source = h("span", {});
  const intervals = chooser({
    label: "Interval", name: "interval", value: interval,
    options: Object.keys(INTERVALS).map((value) => ({ value, text: value })),
    change: (value) => {
      interval = value;
      candles = [];
      ctx.setQuery({ interval: value });
      ctx.watch([topicOf(ctx.params, value)]);
      void load();
    },
  });
  const element = card({ title: "Candles", sub: source, name: "candles", tools: [intervals.element] },
    h("div", { class: "card-body" }, legend, h("div", { class: "candles-place" }, host, nothing),
      h("p", { class: "attribution" },
        h("span", { class: "key key-open" }), "hole ", h("span", { class: "key key-never" }), "hole that cannot be filled",
        h("a", { href: "https://www.tradingview.com/", target: "_blank", rel: "noopener noreferrer" }, "Charts: TradingView Lightweight Charts™"))));

  async function load(isAgain = false) {
    loading?.abort();
    const mine = (loading = new AbortController());
    const at = interval;
    if (!candles.length) showNothing(h("p", { class: "muted", role: "status" }, "Reading candles …"));
    try {
      const limit = isAgain ? AGAIN : CANDLES;
      const found = await ctx.api.get("/market/candles", { exchange, symbol, interval: at, limit }, mine.signal);
      if (!isMounted || at !== interval) return;
      loading = null;
      if (!interval) {
        interval = found.interval ?? "1m";
        intervals.set(interval);
        ctx.watch([topicOf(ctx.params, interval)]);
      }
      // The newest candle of the live updates may be ahead of this answer.
      const live = candles.filter(([open]) => open > (found.items.at(-1)?.[0] ?? 0));
      candles = merge(isAgain ? candles : [], [...found.items, ...live], CANDLES);
      const from = isAgain ? found.items[0]?.[0] ?? Infinity : 0;
      gaps = [...gaps.filter((gap) => (gap.until_ms ?? Infinity) < from), ...found.gaps];
      setText(source, found.source && found.source !== "nothing" ? `from ${found.source}` : "");
      show();
      if (!isAgain) void load(true); // a long chart may be half a minute old
    } catch (error) {
      if (mine.signal.aborted || !isMounted) return;
      loading = null;
      if (isAgain) return;
      showNothing(errorState({ title: "The candles could not be read", text: error instanceof Error ? error.message : String(error), action: { text: "Try again", run: () => void load() } }));
    }
  }

  function show() {
    host.dataset.candles = String(candles.length);
    chart?.setData([...candles], gaps, INTERVALS[interval]);
    if (candles.length) {
      nothing.hidden = true;
      if (!isHovered) say(candles[candles.length - 1], null);
    } else {
      showNothing(emptyState({ title: `No ${interval} candles yet`, text: "They are computed from trades as they arrive. A shorter interval shows something sooner." }));
    }
  }

  /** @param {HTMLElement} state */
  function showNothing(state) {
    nothing.hidden = false;
    refresh(nothing, state);
  }

  /** @param {Candle | null} candle @param {import("../parts/candles.js").Gap | null} gap */
  function say(candle, gap) {
    if (gap && !candle) {
      setText(legend, `Hole: ${gap.reason || "no reason known"} (${gap.state})`);
    } else if (candle) {
      const digits = digitsOf(candles);
      const [open, high, low, close, volume] = candle.slice(1).map((text) => decimal(shorten(String(text), digits)));
      setText(legend, `${utc(candle[0])}  O ${open}  H ${high}  L ${low}  C ${close}  V ${volume}${gap ? `  · hole: ${gap.reason}` : ""}`);
    }
  }

  candleChart(host, {
    hover: (candle, gap) => {
      isHovered = Boolean(candle || gap);
      say(candle ?? (gap ? null : candles[candles.length - 1] ?? null), gap);
    },
  }).then((made) => {
    if (!isMounted) return made.unmount();
    chart = made;
    if (candles.length) show();
  }, (error) => isMounted && showNothing(errorState({ title: "No chart", text: error.message })));
  void load();
  // The candle that just closed, and holes that were found or filled, come with the next look.
  let looks = 0;
  const again = setInterval(() => {
    if (document.visibilityState !== "visible" || loading) return;
    looks += 1;
    void load(candles.length > 0 && looks % ALL_AGAIN !== 0);
  }, AGAIN_MS);

  const draw = frame(() => {
    const last = candles[candles.length - 1];
    if (!last || !chart || last.join() === drawn) return;
    drawn = last.join();
    chart.update(last);
    host.dataset.candles = String(candles.length);
    if (!isHovered) say(last, null);
  });

  return {
    element,
    interval: () => interval,
    /** @param {any} now */
    live(now) {
      if (now.candle?.interval !== interval || !candles.length) return;
      const { at_ms, open, high, low, close, volume } = now.candle;
      const last = candles[candles.length - 1];
      if (at_ms < last[0]) return;
      if (at_ms === last[0]) candles.pop();
      candles.push([at_ms, open, high, low, close, volume]);
      draw();
    },
    unmount() {
      isMounted = false;
      clearInterval(again);
      loading?.abort();
      chart?.unmount();
      chart = null; // a frame that is already asked for must not draw on it
    },
  };
}
