// @ts-check
// Candles with volume and shaded holes, by lightweight-charts (loaded when first needed).
//
//   const chart = await candleChart(host, {hover});
//   chart.setData(candles, gaps, step)    all of them; candles as in candle-model.js
//   chart.update(candle)                  the newest, changed or new
//   chart.unmount()
// hover(candle | null, gap | null): what is under the pointer; null when there is none.

import { colour, onTheme } from "../theme.js";
import { digitsOf, shadesOf, timesOf } from "./candle-model.js";
import { font } from "./sparkline.js";

/** @typedef {import("./candle-model.js").Candle} Candle */
/** @typedef {{since_ms: number, until_ms: number | null, state: string, reason: string}} Gap */

const LIBRARY = new URL("../vendor/lightweight-charts.standalone.production.mjs", import.meta.url).href;

/**
 * @param {HTMLElement} host
 * @param {{hover: (candle: Candle | null, gap: Gap | null) => void}} options
 */
export async function candleChart(host, { hover }) {
  const library = await import(LIBRARY);
  const chart = library.createChart(host, { autoSize: true, ...look() });
  const series = chart.addSeries(library.CandlestickSeries, { ...candleLook(), borderVisible: false });
  const volume = chart.addSeries(library.HistogramSeries, {
    priceScaleId: "", priceFormat: { type: "volume" }, lastValueVisible: false, priceLineVisible: false,
  });
  series.priceScale().applyOptions({ scaleMargins: { top: 0.08, bottom: 0.24 } });
  volume.priceScale().applyOptions({ scaleMargins: { top: 0.82, bottom: 0 } });
  /** @type {Candle[]} */
  let candles = [];
  /** @type {Map<number, Candle>} */
  let byTime = new Map();
  /** @type {number[]} */
  let times = [];
  /** @type {Gap[]} */
  let gaps = [];
  let step = 60_000;

  const shade = gapShade(() => ({ chart, times, step, gaps }));
  series.attachPrimitive(shade);

  /** @param {Candle} one */
  const bar = (one) => ({ time: one[0] / 1000, open: Number(one[1]), high: Number(one[2]), low: Number(one[3]), close: Number(one[4]) });
  /** @param {Candle} one */
  const amount = (one) => ({
    time: one[0] / 1000, value: Number(one[5]),
    color: translucent(colour(Number(one[4]) >= Number(one[1]) ? "--buy" : "--sell"), 0.35),
  });

  function drawAll() {
    times = timesOf(candles, step);
    byTime = new Map(candles.map((one) => [one[0], one]));
    series.setData(times.map((at) => {
      const one = byTime.get(at);
      return one ? bar(one) : { time: at / 1000 };
    }));
    volume.setData(candles.map(amount));
  }

  chart.subscribeCrosshairMove((/** @type {any} */ event) => {
    const at = typeof event.time === "number" ? event.time * 1000 : null;
    if (at === null) return hover(null, null);
    const gap = gaps.find((one) => at + step > one.since_ms && at < (one.until_ms ?? Infinity));
    hover(byTime.get(at) ?? null, gap ?? null);
  });
  const end = onTheme(() => {
    chart.applyOptions(look());
    series.applyOptions(candleLook());
    drawAll();
  });

  return {
    /** @param {Candle[]} all @param {Gap[]} holes @param {number} stepMs */
    setData(all, holes, stepMs) {
      const isOther = stepMs !== step || !candles.length;
      candles = all;
      gaps = holes;
      step = stepMs;
      const digits = Math.min(12, digitsOf(all));
      series.applyOptions({ priceFormat: { type: "price", precision: digits, minMove: 10 ** -digits } });
      chart.applyOptions({ timeScale: { secondsVisible: step < 60_000 } });
      drawAll();
      if (isOther && times.length) {
        const seen = Math.max(40, Math.floor(host.clientWidth / 8));
        chart.timeScale().setVisibleLogicalRange({ from: times.length - seen, to: times.length + 4 });
      }
    },
    /** @param {Candle} one */
    update(one) {
      const last = times[times.length - 1] ?? 0;
      if (one[0] < last) return;
      for (let at = last + step; last && at < one[0] && at - last < step * 100; at += step) {
        series.update({ time: at / 1000 });
        times.push(at);
      }
      if (one[0] > last) {
        times.push(one[0]);
        candles.push(one);
      } else candles[candles.length - 1] = one;
      byTime.set(one[0], one);
      series.update(bar(one));
      volume.update(amount(one));
    },
    unmount() {
      end();
      chart.remove();
    },
  };
}

function look() {
  return {
    layout: {
      attributionLogo: false, background: { type: "solid", color: "transparent" }, textColor: colour("--muted"),
      fontSize: 11, fontFamily: font().replace(/^\S+ /, ""),
    },
    grid: { vertLines: { color: colour("--line") }, horzLines: { color: colour("--line") } },
    rightPriceScale: { borderColor: colour("--line") },
    timeScale: { borderColor: colour("--line"), timeVisible: true, rightOffset: 4 },
    crosshair: { mode: 0 },
    handleScale: { axisPressedMouseMove: { time: true, price: false } },
  };
}

function candleLook() {
  const [up, down] = [colour("--buy"), colour("--sell")];
  return { upColor: up, downColor: down, wickUpColor: up, wickDownColor: down };
}

/** @param {string} rgb  as browsers give it  @param {number} share */
function translucent(rgb, share) {
  const parts = rgb.match(/[\d.]+/g) ?? ["128", "128", "128"];
  return `rgba(${parts.slice(0, 3).join(", ")}, ${share})`;
}

/**
 * Draws each hole as a band over the whole height, behind the candles.
 * @param {() => {chart: any, times: number[], step: number, gaps: Gap[]}} now
 */
function gapShade(now) {
  const renderer = {
    /** @param {any} target */
    draw(target) {
      target.useBitmapCoordinateSpace((/** @type {any} */ { context, bitmapSize, horizontalPixelRatio: ratio }) => {
        const { chart, times, step, gaps } = now();
        const scale = chart.timeScale();
        const bar = (scale.logicalToCoordinate(1) ?? 0) - (scale.logicalToCoordinate(0) ?? 0);
        const x = (/** @type {number} */ at) => {
          const whole = Math.floor(at);
          return ((scale.logicalToCoordinate(whole) ?? 0) + (at - whole) * bar) * ratio;
        };
        for (const range of shadesOf(times, step, gaps)) {
          const paint = colour(range.state === "unfillable" ? "--cell-never" : "--cell-open");
          const left = x(range.from);
          const width = Math.max(2 * ratio, x(range.to) - left);
          context.fillStyle = translucent(paint, 0.22);
          context.fillRect(left, 0, width, bitmapSize.height);
          context.fillStyle = paint;
          context.fillRect(left, 0, width, 3 * ratio);
        }
      });
    },
  };
  const views = [{ zOrder: () => "bottom", renderer: () => renderer }];
  return { paneViews: () => views, updateAllViews() {} };
}
