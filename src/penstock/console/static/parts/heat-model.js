// @ts-check
// Where the cells of the coverage map are and what they mean. Pure.
//
// A series is {exchange, channel, symbol, share, cells}; `cells` has one character per column:
// `.` nothing expected, 0–9 tenths complete, f complete, F complete after filling, u a hole that
// cannot be filled, g an open hole.

/** @typedef {{exchange: string, channel: string, symbol: string, share: number | null, cells: string}} Series */
/** @typedef {{row: number, column: number}} Cell */
/** @typedef {{left: number, right: number, top: number, rowHeight: number, cellWidth: number, columns: number, rows: number}} Layout */

export const HEAD = 26;

/** Each kind of cell: its colour and its name in the legend. */
export const KINDS = /** @type {const} */ ({
  full: { colour: "--cell-full", text: "complete" },
  filled: { colour: "--cell-filled", text: "complete after filling" },
  part: { colour: "--cell-part", text: "partly there" },
  open: { colour: "--cell-open", text: "open hole" },
  never: { colour: "--cell-never", text: "hole that cannot be filled" },
  none: { colour: "--cell-none", text: "nothing expected" },
});

/**
 * @param {string} mark
 * @returns {keyof typeof KINDS}
 */
export function kindOfCell(mark) {
  if (mark === "f") return "full";
  if (mark === "F") return "filled";
  if (mark === "g") return "open";
  if (mark === "u") return "never";
  return mark >= "0" && mark <= "9" ? "part" : "none";
}

/** @param {string} mark */
export function wordsOfCell(mark) {
  const kind = kindOfCell(mark);
  return kind === "part" ? `at least ${Number(mark) * 10} % there` : KINDS[kind].text;
}

/**
 * @param {number} width  of the whole map
 * @param {number} columns
 * @param {number} rows
 * @returns {Layout}
 */
export function layoutOf(width, columns, rows) {
  const isNarrow = width < 640;
  const left = isNarrow ? 104 : 208;
  const right = isNarrow ? 0 : 60;
  return {
    left, right: width - right, top: HEAD, rowHeight: isNarrow ? 34 : 20, rows, columns,
    cellWidth: columns ? Math.max(1, (width - left - right) / columns) : 1,
  };
}

/**
 * The cell at a point of the map, or null beside the cells.
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y  from the top of what is seen
 * @param {number} scrollTop
 * @returns {Cell | null}
 */
export function cellAt(layout, x, y, scrollTop) {
  if (y < layout.top || x < layout.left) return null;
  const column = Math.floor((x - layout.left) / layout.cellWidth);
  const row = Math.floor((y - layout.top + scrollTop) / layout.rowHeight);
  return column < layout.columns && row < layout.rows ? { row, column } : null;
}

/**
 * Where a cell is drawn, with a gap of one pixel to the next where there is room.
 * @param {Layout} layout
 * @param {Cell} cell
 * @param {number} scrollTop
 */
export function boxOf(layout, { row, column }, scrollTop) {
  const x = layout.left + Math.round(column * layout.cellWidth);
  const next = layout.left + Math.round((column + 1) * layout.cellWidth);
  const gap = layout.cellWidth >= 5 ? 1 : 0;
  return { x, y: layout.top + row * layout.rowHeight - scrollTop + 1, width: Math.max(1, next - x - gap), height: layout.rowHeight - 2 };
}

/**
 * The cell that an arrow or another key leads to; null for keys that do not move.
 * @param {Layout} layout
 * @param {Cell} cell
 * @param {string} key
 * @param {number} page  rows that are seen
 * @returns {Cell | null}
 */
export function moved(layout, { row, column }, key, page) {
  const to = /** @type {Record<string, [number, number]>} */ ({
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, layout.columns - 1], PageUp: [row - page, column], PageDown: [row + page, column],
  })[key];
  if (!to) return null;
  const within = (/** @type {number} */ value, /** @type {number} */ most) => Math.min(Math.max(0, value), Math.max(0, most - 1));
  return { row: within(to[0], layout.rows), column: within(to[1], layout.columns) };
}

/**
 * How many cells of each kind there are.
 * @param {string} cells
 */
export function countCells(cells) {
  const counts = { full: 0, filled: 0, part: 0, open: 0, never: 0, none: 0 };
  for (const mark of cells) counts[kindOfCell(mark)] += 1;
  return counts;
}

/**
 * The mean share of all series that expect something; null when none does.
 * @param {Series[]} series
 */
export function shareOf(series) {
  const known = series.flatMap(({ share }) => (share === null ? [] : [share]));
  return known.length ? known.reduce((sum, share) => sum + share, 0) / known.length : null;
}

/** @param {Series} series */
export function nameOf({ exchange, symbol, channel }) {
  return `${exchange} ${symbol} ${channel}`;
}
