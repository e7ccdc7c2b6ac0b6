// @ts-check
// A small line of values over time on a canvas: drawn in a frame, only while it is in view.
//
//   const line = sparkline({label: "Messages per second, last 10 minutes", height: 40, axis?: true});
//   line.update([[ms, value], …])     null values are breaks in the line
//   line.element; line.unmount()
// With `axis` it has a scale and times, and reads the value under the pointer.

import { compact, utcTime } from "../format.js";
import { colour, onTheme } from "../theme.js";
import { frame, h, visible } from "./dom.js";

/** @param {{label: string, height?: number, axis?: boolean, colour?: string}} options */
export function sparkline({ label, height = 36, axis = false, colour: name = "--accent" }) {
  const canvas = h("canvas", { class: "sparkline", role: "img", "aria-label": label });
  canvas.style.height = `${height}px`;
  /** @type {[number, number | null][]} */
  let points = [];
  let isVisible = false;
  /** @type {number | null} */
  let pointer = null;

  const draw = frame(() => {
    const pen = prepare(canvas);
    if (!pen || !isVisible) return;
    const width = canvas.clientWidth;
    const box = axis ? { left: 0, right: width - 44, top: 8, bottom: height - 20 } : { left: 0, right: width, top: 3, bottom: height - 2 };
    const known = points.filter(([, value]) => value !== null);
    if (known.length < 2) {
      pen.fillStyle = colour("--muted");
      pen.font = font();
      if (axis) pen.fillText("No measurements yet", 4, height / 2);
      return;
    }
    const from = points[0][0];
    const span = Math.max(1, points[points.length - 1][0] - from);
    const most = niceTop(Math.max(...known.map(([, value]) => Number(value))));
    const x = (/** @type {number} */ ms) => box.left + ((ms - from) / span) * (box.right - box.left);
    const y = (/** @type {number} */ value) => box.bottom - (value / most) * (box.bottom - box.top);
    if (axis) drawAxis(pen, box, most, from, span);
    const line = colour(name);
    pen.lineWidth = 1.5;
    pen.lineJoin = "round";
    for (const run of runs(points)) {
      pen.beginPath();
      run.forEach(([ms, value], i) => (i ? pen.lineTo(x(ms), y(value)) : pen.moveTo(x(ms), y(value))));
      pen.strokeStyle = line;
      pen.stroke();
      pen.lineTo(x(run[run.length - 1][0]), box.bottom);
      pen.lineTo(x(run[0][0]), box.bottom);
      pen.globalAlpha = 0.12;
      pen.fillStyle = line;
      pen.fill();
      pen.globalAlpha = 1;
    }
    if (axis && pointer !== null) drawPointer(pen, known, pointer, x, y, box);
  });

  if (axis) {
    canvas.addEventListener("pointermove", (event) => {
      pointer = event.offsetX;
      draw();
    });
    canvas.addEventListener("pointerleave", () => {
      pointer = null;
      draw();
    });
  }
  const resized = new ResizeObserver(draw);
  resized.observe(canvas);
  const ends = [
    visible(canvas, (now) => {
      isVisible = now;
      if (now) draw();
    }),
    onTheme(draw),
    () => resized.disconnect(),
  ];
  return {
    element: canvas,
    /** @param {[number, number | null][]} next */
    update(next) {
      points = next;
      draw();
    },
    unmount: () => ends.forEach((end) => end()),
  };
}

/**
 * Sizes a canvas for the screen's pixels and clears it.
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D | null}
 */
export function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (!width || !height) return null;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const pen = canvas.getContext("2d");
  if (!pen) return null;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** The font of small text on canvases. */
export function font(size = 11) {
  return `${size}px ${getComputedStyle(document.body).fontFamily}`;
}

/** @param {number} most  @returns {number}  the next 1, 2, 2.5 or 5 times a power of ten */
export function niceTop(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8].find((step) => step * power >= most) ?? 10) * power;
}

/**
 * The stretches without an unknown value.
 * @param {[number, number | null][]} points
 * @returns {[number, number][][]}
 */
export function runs(points) {
  /** @type {[number, number][][]} */
  const found = [];
  /** @type {[number, number][]} */
  let run = [];
  for (const [ms, value] of points) {
    if (value === null) {
      if (run.length) found.push(run);
      run = [];
    } else run.push([ms, value]);
  }
  if (run.length) found.push(run);
  return found;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {{left: number, right: number, top: number, bottom: number}} box
 * @param {number} most
 * @param {number} from
 * @param {number} span
 */
function drawAxis(pen, box, most, from, span) {
  pen.font = font();
  pen.fillStyle = colour("--muted");
  pen.strokeStyle = colour("--line");
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  for (const share of [0, 0.5, 1]) {
    const y = Math.round(box.bottom - share * (box.bottom - box.top)) + 0.5;
    pen.beginPath();
    pen.moveTo(box.left, y);
    pen.lineTo(box.right, y);
    pen.stroke();
    pen.fillText(compact(most * share), box.right + 6, y);
  }
  pen.textBaseline = "alphabetic";
  for (const share of [0, 0.5, 1]) {
    pen.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
    pen.fillText(utcTime(from + share * span), box.left + share * (box.right - box.left), box.bottom + 15);
  }
  pen.textAlign = "left";
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {[number, number | null][]} known
 * @param {number} pointer
 * @param {(ms: number) => number} x
 * @param {(value: number) => number} y
 * @param {{left: number, right: number, top: number, bottom: number}} box
 */
function drawPointer(pen, known, pointer, x, y, box) {
  const [ms, value] = known.reduce((best, one) =>
    Math.abs(x(one[0]) - pointer) < Math.abs(x(best[0]) - pointer) ? one : best);
  const at = x(ms);
  pen.fillStyle = colour("--muted");
  pen.fillRect(at, box.top, 1, box.bottom - box.top);
  pen.beginPath();
  pen.arc(at, y(Number(value)), 3, 0, 7);
  pen.fillStyle = colour("--accent");
  pen.fill();
  const text = `${compact(Number(value))} at ${utcTime(ms)}`;
  const wide = pen.measureText(text).width + 12;
  const left = Math.min(Math.max(0, at - wide / 2), box.right - wide);
  pen.fillStyle = colour("--raised");
  pen.fillRect(left, box.top - 8, wide, 18);
  pen.fillStyle = colour("--text");
  pen.fillText(text, left + 6, box.top + 5);
}
