// @ts-check
// The depth of an order book as two stepped areas, by uPlot (loaded when first needed).
//
//   const depth = await depthChart(host);
//   depth.update({bids: [[price, quantity]…], asks: […]})   best first, as text
//   depth.unmount()
// `cumulate` is pure: what is drawn.

import { compact } from "../format.js";
import { colour, onTheme } from "../theme.js";
import { frame, h, visible } from "./dom.js";
import { font } from "./sparkline.js";

/** Five drawings a second: more cannot be read. */
const PAUSE_MS = 200;

/** @typedef {{bids: [string, string][], asks: [string, string][]}} Book */

/**
 * Prices in rising order with the sums of what is offered up to each, counted from the middle.
 * @param {Book} book
 * @returns {[number[], (number | null)[], (number | null)[]]}  prices, bids, asks
 */
export function cumulate({ bids, asks }) {
  const sums = (/** @type {[string, string][]} */ side) => {
    let sum = 0;
    return side.map(([price, quantity]) => /** @type {[number, number]} */ ([Number(price), (sum += Number(quantity))]));
  };
  const below = sums(bids).reverse();
  const above = sums(asks);
  return [
    [...below, ...above].map(([price]) => price),
    [...below.map(([, sum]) => sum), ...above.map(() => null)],
    [...below.map(() => null), ...above.map(([, sum]) => sum)],
  ];
}

/** @type {Promise<any> | null} */
let loading = null;

/** The library is a plain script that sets `window.uPlot`. */
export function loadUplot() {
  loading ??= new Promise((resolve, reject) => {
    const base = new URL("../vendor/", import.meta.url);
    document.head.append(h("link", { rel: "stylesheet", href: new URL("uPlot.min.css", base).href }));
    const script = h("script", { src: new URL("uPlot.iife.min.js", base).href });
    script.onload = () => resolve(/** @type {any} */ (window).uPlot);
    script.onerror = () => {
      loading = null;
      script.remove();
      reject(new Error("The chart library could not be loaded."));
    };
    document.head.append(script);
  });
  return loading;
}

/** @param {HTMLElement} host */
export async function depthChart(host) {
  const uPlot = await loadUplot();
  /** @type {any} */
  let plot = null;
  /** @type {Book | null} */
  let book = null;
  let isVisible = true;

  function build() {
    plot?.destroy();
    const [bid, ask, line, text] = ["--buy", "--sell", "--line", "--muted"].map(colour);
    const axis = { stroke: text, font: font(), grid: { stroke: line, width: 1 }, ticks: { show: false } };
    plot = new uPlot({
      width: Math.max(120, host.clientWidth), height: Math.max(120, host.clientHeight),
      padding: [8, 8, 0, 0],
      scales: { x: { time: false }, y: { range: (/** @type {any} */ _u, /** @type {number} */ _low, /** @type {number} */ high) => [0, high * 1.05 || 1] } },
      axes: [
        { ...axis, size: 28, space: 72, values: (/** @type {any} */ _u, /** @type {number[]} */ values) => values.map(shortPrice) },
        { ...axis, size: 44, side: 1, values: (/** @type {any} */ _u, /** @type {number[]} */ values) => values.map(compact) },
      ],
      series: [
        {},
        { label: "Bids", stroke: bid, fill: faded(bid), width: 1.5, points: { show: false }, paths: uPlot.paths.stepped({ align: -1 }) },
        { label: "Asks", stroke: ask, fill: faded(ask), width: 1.5, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) },
      ],
      cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false } },
      legend: { show: false },
    }, book ? cumulate(book) : [[], [], []], host);
  }
  const paint = frame(() => {
    if (isVisible && book && plot) plot.setData(cumulate(book));
  });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  function draw() {
    waiting ??= setTimeout(() => {
      waiting = undefined;
      paint();
    }, PAUSE_MS);
  }
  build();
  const resized = new ResizeObserver(() => {
    if (host.clientWidth) plot?.setSize({ width: host.clientWidth, height: Math.max(120, host.clientHeight) });
  });
  resized.observe(host);
  const ends = [
    onTheme(build),
    visible(host, (now) => {
      isVisible = now;
      draw();
    }),
    () => resized.disconnect(),
  ];
  return {
    /** @param {Book} next */
    update(next) {
      book = next;
      draw();
    },
    unmount() {
      ends.forEach((end) => end());
      clearTimeout(waiting);
      plot?.destroy();
      plot = null;
    },
  };
}

/** @param {string} rgb */
function faded(rgb) {
  return rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.16)");
}

/** @param {number} price */
function shortPrice(price) {
  return price >= 1000 ? price.toLocaleString("en", { maximumFractionDigits: 1 }) : String(Number(price.toPrecision(6)));
}
