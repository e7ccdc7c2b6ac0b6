// @ts-check
// The coverage map on a canvas: rows are series, columns are days or hours. Only what is in view is
// drawn, so thousands of series cost no more than fifty.
//
//   const map = heatmap({open: (series, column) => …, back: () => …});
//   map.update({series, columns, from_ms, step_ms})   map.select(name | null, column | null)
//   map.element   map.unmount()
// Keyboard: arrows, Home, End, Page Up, Page Down; Enter opens a cell; Esc goes back. The words of
// the cell under the cursor are in [data-field=cell], a live region.

import { percent, utcDay, utcTime } from "../format.js";
import { colour, onTheme } from "../theme.js";
import { frame, h, setText, visible } from "./dom.js";
import { boxOf, cellAt, HEAD, kindOfCell, KINDS, layoutOf, moved, nameOf, wordsOfCell } from "./heat-model.js";
import { font, prepare } from "./sparkline.js";

/** @typedef {import("./heat-model.js").Series} Series */
/** @typedef {{series: Series[], columns: number, from_ms: number, step_ms: number}} MapData */

const DAY_MS = 86_400_000;

/** @param {{open: (series: Series, column: number) => void, back: () => void}} options */
export function heatmap({ open, back }) {
  /** @type {MapData} */
  let data = { series: [], columns: 0, from_ms: 0, step_ms: DAY_MS };
  /** @type {import("./heat-model.js").Cell | null} */
  let cursor = null;
  /** @type {import("./heat-model.js").Cell | null} */
  let hovered = null;
  /** @type {{name: string | null, column: number | null}} */
  let selected = { name: null, column: null };
  let isVisible = false;

  const canvas = h("canvas", { class: "heat-canvas", "aria-hidden": "true" });
  const tall = h("div", { class: "heat-tall" }, canvas);
  const tip = h("div", { class: "heat-tip", hidden: true, "aria-hidden": "true" });
  const said = h("p", { class: "sr-only", "aria-live": "polite", "data-field": "cell" });
  const scroller = h("div", {
    class: "heat-scroll", tabindex: 0, role: "application", "data-map": true,
    "aria-label": "Coverage map. Arrow keys move over the cells, Enter opens one, Escape goes back. The same as a table: button Table.",
    onscroll: () => draw(), onkeydown: onKey,
    onfocus: () => {
      if (!cursor && data.series.length && scroller.matches(":focus-visible")) setCursor({ row: 0, column: data.columns - 1 });
    },
    onblur: () => {
      cursor = null;
      draw();
    },
  }, tall);
  const element = h("div", { class: "heat" }, scroller, tip, said);
  canvas.addEventListener("pointermove", (event) => hover(event.offsetX, event.offsetY));
  canvas.addEventListener("pointerleave", () => hover(-1, -1));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(layout(), event.offsetX, event.offsetY, scroller.scrollTop);
    if (cell) open(data.series[cell.row], cell.column);
  });

  function layout() {
    return layoutOf(scroller.clientWidth, data.columns, data.series.length);
  }

  /** @param {number} column */
  function columnText(column) {
    const at = data.from_ms + column * data.step_ms;
    return data.step_ms >= DAY_MS ? utcDay(at) : `${utcDay(at)} ${utcTime(at).slice(0, 5)}`;
  }

  /** @param {import("./heat-model.js").Cell} cell */
  function wordsAt({ row, column }) {
    const one = data.series[row];
    return `${nameOf(one)}, ${columnText(column)}: ${wordsOfCell(one.cells[column] ?? ".")}`;
  }

  /** @param {number} x @param {number} y */
  function hover(x, y) {
    hovered = cellAt(layout(), x, y, scroller.scrollTop);
    canvas.classList.toggle("is-over", hovered !== null);
    tip.hidden = hovered === null;
    if (hovered) {
      setText(tip, wordsAt(hovered));
      const left = Math.min(x + 14, element.clientWidth - tip.offsetWidth - 4);
      tip.style.transform = `translate(${Math.max(4, left)}px, ${y + 18}px)`;
    }
    draw();
  }

  /** @param {import("./heat-model.js").Cell} cell */
  function setCursor(cell) {
    cursor = cell;
    setText(said, wordsAt(cell));
    const { rowHeight } = layout();
    const top = cell.row * rowHeight;
    const seen = scroller.clientHeight - HEAD - rowHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + seen) scroller.scrollTop = top - seen;
    draw();
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    const from = cursor ?? { row: 0, column: data.columns - 1 };
    const to = data.series.length ? moved(layout(), from, event.key, Math.floor(scroller.clientHeight / layout().rowHeight) - 2) : null;
    if (to) setCursor(to);
    else if (event.key === "Enter" && cursor) open(data.series[cursor.row], cursor.column);
    else if (event.key === "Escape") back();
    else return;
    event.preventDefault();
  }

  const draw = frame(() => {
    const place = layout();
    tall.style.height = `${HEAD + place.rows * place.rowHeight + 4}px`;
    const height = Math.min(scroller.clientHeight || 400, HEAD + place.rows * place.rowHeight + 4);
    canvas.style.height = `${height}px`;
    if (!isVisible) return;
    const pen = prepare(canvas);
    if (!pen || !place.columns) return;
    const top = scroller.scrollTop;
    const first = Math.max(0, Math.floor(top / place.rowHeight));
    const last = Math.min(place.rows, Math.ceil((top + height - HEAD) / place.rowHeight));
    pen.textBaseline = "middle";
    pen.font = font(12);
    for (let row = first; row < last; row += 1) drawRow(pen, place, row, top);
    if (cursor) outline(pen, boxOf(place, cursor, top), colour("--text"), 2);
    else if (hovered) outline(pen, boxOf(place, hovered, top), colour("--text"), 1);
    pen.clearRect(0, 0, canvas.clientWidth, HEAD);
    drawHead(pen, place);
  });

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {import("./heat-model.js").Layout} place
   * @param {number} row
   * @param {number} top
   */
  function drawRow(pen, place, row, top) {
    const one = data.series[row];
    const isSelected = nameOf(one) === selected.name;
    const y = place.top + row * place.rowHeight - top;
    if (isSelected) {
      pen.fillStyle = colour("--accent-soft");
      pen.fillRect(0, y, canvas.clientWidth, place.rowHeight);
    }
    const middle = y + place.rowHeight / 2;
    const room = place.left - 10;
    pen.textAlign = "left";
    pen.fillStyle = colour(isSelected ? "--accent" : "--text");
    const isTall = place.rowHeight > 30;
    const used = fit(pen, one.symbol, 4, isTall ? middle - 7 : middle, isTall ? room : room * 0.62);
    pen.fillStyle = colour("--muted");
    const rest = `${one.exchange} ${one.channel}`;
    if (isTall) fit(pen, rest, 4, middle + 8, room);
    else fit(pen, rest, 4 + used + 8, middle, room - used - 10);
    for (let column = 0; column < place.columns; column += 1) {
      drawCell(pen, boxOf(place, { row, column }, top), one.cells[column] ?? ".");
    }
    if (isSelected && selected.column !== null) outline(pen, boxOf(place, { row, column: selected.column }, top), colour("--accent"), 2);
    if (place.right < canvas.clientWidth) {
      pen.textAlign = "right";
      pen.fillStyle = colour(one.share === 1 ? "--muted" : "--text");
      pen.fillText(percent(one.share), canvas.clientWidth - 4, middle);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {import("./heat-model.js").Layout} place */
  function drawHead(pen, place) {
    pen.font = font(11);
    pen.fillStyle = colour("--muted");
    pen.textAlign = "left";
    const isDays = data.step_ms >= DAY_MS;
    const every = Math.max(1, Math.ceil((isDays ? 78 : 40) / place.cellWidth));
    for (let column = 0; column < place.columns; column += every) {
      const x = place.left + Math.round(column * place.cellWidth);
      const text = isDays ? columnText(column) : columnText(column).slice(11);
      if (x + pen.measureText(text).width > place.right + 4) break;
      pen.fillText(text, x, HEAD / 2 - 1);
      pen.fillRect(x, HEAD - 6, 1, 4);
    }
    if (place.right < canvas.clientWidth) {
      pen.textAlign = "right";
      pen.fillText("complete", canvas.clientWidth - 4, HEAD / 2 - 1);
    }
  }

  const resized = new ResizeObserver(draw);
  resized.observe(scroller);
  const ends = [
    onTheme(draw),
    visible(element, (now) => {
      isVisible = now;
      draw();
    }),
    () => resized.disconnect(),
  ];
  return {
    element,
    /** @param {MapData} next */
    update(next) {
      data = next;
      hovered = null;
      tip.hidden = true;
      if (cursor && (cursor.row >= data.series.length || cursor.column >= data.columns)) cursor = null;
      scroller.dataset.rows = String(data.series.length);
      scroller.dataset.columns = String(data.columns);
      draw();
    },
    /** @param {string | null} name @param {number | null} column */
    select(name, column) {
      selected = { name, column };
      draw();
    },
    unmount: () => ends.forEach((end) => end()),
  };
}

/**
 * Text that ends in … where there is no room for it.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {number} room
 * @returns {number}  its width
 */
function fit(pen, text, x, y, room) {
  if (room < 12) return 0;
  let shown = text.slice(0, 80);
  while (shown && pen.measureText(shown).width > room) {
    shown = shown.length > 2 ? `${shown.slice(0, shown.endsWith("…") ? -2 : -1)}…` : "";
  }
  pen.fillText(shown, x, y);
  return pen.measureText(shown).width;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {{x: number, y: number, width: number, height: number}} box
 * @param {string} mark
 */
function drawCell(pen, { x, y, width, height }, mark) {
  const kind = kindOfCell(mark);
  pen.fillStyle = colour(KINDS[kind].colour);
  pen.fillRect(x, y, width, height);
  if (kind === "part") {
    // What is there is filled from below; the rest is only tinted.
    const there = Math.round((height * Number(mark)) / 10);
    pen.fillStyle = colour("--cell-none");
    pen.globalAlpha = 0.55;
    pen.fillRect(x, y, width, height - there);
    pen.globalAlpha = 1;
  } else if (kind === "never" && width >= 6) {
    pen.strokeStyle = colour("--surface");
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, y + height);
    pen.lineTo(x + width, y);
    pen.stroke();
  } else if (kind === "open" && width >= 6) {
    pen.fillStyle = colour("--surface");
    pen.fillRect(x + width / 2 - 2, y + height / 2 - 2, 4, 4);
  }
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {{x: number, y: number, width: number, height: number}} box
 * @param {string} paint
 * @param {number} line
 */
function outline(pen, { x, y, width, height }, paint, line) {
  pen.strokeStyle = paint;
  pen.lineWidth = line;
  pen.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
}
