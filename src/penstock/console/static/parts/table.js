// @ts-check
// A table with sorting, a filter and the keyboard. With more than VIRTUAL rows only those in view
// are built, so 1,000 rows cost as much as 40.
//
//   const t = table({
//     name: "jobs", label: "Jobs",
//     key: (job) => job.id,
//     columns: [
//       {name: "symbol", title: "Symbol", value: (job) => job.symbol},
//       {name: "rows", title: "Rows", numeric: true, value: (job) => job.rows, text: (job) => count(job.rows)},
//       {name: "state", title: "State", value: (job) => job.state, paint: (cell, job) => …},
//     ],
//     sort?: {column: "symbol", direction: 1},  filter?: true,  tools?: [nodes],
//     open?: (job) => …,                        by click or Enter
//     cards?: true,                             rows become cards on narrow screens
//     props?: (job) => ({"data-job-id": job.id}),
//     empty: {title, text, action?},
//   });
//   t.update(rows)   t.element   t.setFilter(text)   t.unmount()
// `value` sorts; `text` (default: value as text) is shown and searched by the filter; `paint` fills
// the cell itself: it is called again with the same <td> on each update, so it can keep its nodes.
// Hooks: [data-table=NAME], tr[data-row=KEY], td[data-field=COLUMN], input[data-filter].

import { UNKNOWN, count } from "../format.js";
import { frame, h, icon, refresh, setAttribute, setText } from "./dom.js";
import { filterRows, sortRows, windowOf } from "./rows.js";
import { emptyState } from "./states.js";

const VIRTUAL = 80;
const narrow = matchMedia("(max-width: 640px)");

/**
 * @template T
 * @typedef {Object} Column
 * @property {string} name
 * @property {string} title
 * @property {(row: T) => import("./rows.js").Value} value
 * @property {(row: T) => string} [text]
 * @property {(cell: HTMLTableCellElement, row: T) => void} [paint]
 * @property {boolean} [numeric]
 * @property {boolean} [sortable]  default true
 * @property {string} [hint]  explains the column on hover
 * @property {boolean} [minor]  hidden on narrow screens
 * @property {boolean} [wide]  takes a line of its own in a card
 */

/**
 * @template T
 * @param {{name: string, label: string, key: (row: T) => string, columns: Column<T>[], sort?: {column: string, direction: 1 | -1}, filter?: boolean, tools?: Node[], open?: (row: T) => void, props?: (row: T) => Record<string, string>, cards?: boolean, empty: import("./states.js").StateText, rowHeight?: number}} options
 */
export function table(options) {
  const { name, columns, key, rowHeight = 37 } = options;
  /** @type {T[]} */
  let rows = [];
  /** @type {T[]} */
  let shown = [];
  let filter = "";
  let sort = options.sort ?? null;
  let isLoaded = false;
  /** Whether rows that are built have to be painted again: not while somebody only scrolls. */
  let isChanged = true;
  /** @type {Map<string, HTMLTableRowElement>} */
  const built = new Map();
  /** @type {string | null} */
  let active = null;

  const field = h("input", {
    type: "search", class: "input", "data-filter": true, placeholder: "Filter", "aria-label": `Filter ${options.label}`,
    autocomplete: "off", spellcheck: "false",
    oninput: () => setFilter(field.value),
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && field.value) setFilter("");
      else if (event.key === "ArrowDown") move(0);
      else return;
      event.preventDefault();
    },
  });
  const counted = h("span", { class: "table-count", role: "status", "data-field": "rows" });
  const heads = columns.map((column) => {
    const sortable = column.sortable !== false;
    return h("th", { scope: "col", class: cellClass(column), title: column.hint, "data-column": column.name },
      sortable
        ? h("button", { type: "button", class: "sort", onclick: () => sortBy(column.name) }, column.title)
        : column.title || h("span", { class: "sr-only" }, "Action"));
  });
  const above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
  const below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
  const body = h("tbody", { onkeydown: onKey, onclick: onClick, onfocusin: onFocus }, above, below);
  const grid = h("table", { "aria-label": options.label, "data-table": name, class: options.cards ? "as-cards" : null }, h("thead", {}, h("tr", {}, ...heads)), body);
  const scroller = h("div", { class: "table-scroll", tabindex: -1 }, grid);
  const nothing = h("div", { class: "table-empty", hidden: true });
  const bar = options.filter === false && !options.tools
    ? null
    : h("div", { class: "table-bar" },
        options.filter === false ? null : h("span", { class: "search" }, icon("search"), field),
        ...(options.tools ?? []), counted);
  const element = h("div", { class: "table-part" }, bar, scroller, nothing);
  const draw = frame(render);
  scroller.addEventListener("scroll", draw, { passive: true });
  const resized = new ResizeObserver(draw);
  resized.observe(scroller);

  /** @param {Column<T>} column @param {T} row */
  function textOf(column, row) {
    if (column.text) return column.text(row);
    const value = column.value(row);
    return value === null || value === undefined || value === "" ? UNKNOWN : String(value);
  }

  /** Cards differ in height, so all of them are built. */
  function isLong() {
    return shown.length > VIRTUAL && !(options.cards && narrow.matches);
  }

  function choose() {
    isChanged = true;
    const found = filterRows(rows, filter, (row) => columns.map((column) => textOf(column, row)).join("\n"));
    const column = sort && columns.find((one) => one.name === sort?.column);
    shown = column && sort ? sortRows(found, column.value, sort.direction) : found;
    heads.forEach((head, i) => {
      const isSorted = sort?.column === columns[i].name;
      setAttribute(head, "aria-sort", isSorted ? (sort?.direction === 1 ? "ascending" : "descending") : null);
    });
    setText(counted, shown.length === rows.length ? count(rows.length) : `${count(shown.length)} of ${count(rows.length)}`);
    if (bar && !options.tools) bar.hidden = !rows.length;
    draw();
  }

  function render() {
    const focused = document.activeElement;
    const isVirtual = isLong();
    scroller.classList.toggle("is-virtual", isVirtual);
    setAttribute(grid, "aria-rowcount", isVirtual ? String(shown.length + 1) : null);
    const { first, last } = isVirtual
      ? windowOf(shown.length, scroller.scrollTop, scroller.clientHeight || 600, rowHeight)
      : { first: 0, last: shown.length };
    size(above, first * rowHeight);
    size(below, (shown.length - last) * rowHeight);
    const wanted = new Set();
    /** @type {Element} */
    let place = above;
    for (let i = first; i < last; i += 1) {
      const row = shown[i];
      const id = key(row);
      wanted.add(id);
      const known = built.get(id);
      const line = known ?? build(id);
      if (isChanged || !known) paint(line, row);
      setAttribute(line, "aria-rowindex", isVirtual ? String(i + 2) : null);
      if (place.nextElementSibling !== line) place.after(line);
      place = line;
    }
    isChanged = false;
    for (const [id, line] of built) {
      if (wanted.has(id)) continue;
      line.remove();
      built.delete(id);
    }
    if (active === null || !wanted.has(active)) active = first < last ? key(shown[first]) : null;
    for (const [id, line] of built) line.tabIndex = id === active ? 0 : -1;
    // A row that was moved has lost the focus.
    if (focused instanceof HTMLElement && focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
    scroller.hidden = isLoaded && !shown.length;
    nothing.hidden = !scroller.hidden;
    if (nothing.hidden) return;
    refresh(nothing, rows.length
      ? emptyState({ title: "Nothing matches the filter", text: `${count(rows.length)} are hidden by it.`, action: { text: "Clear the filter", run: () => setFilter("") } })
      : emptyState(options.empty));
  }

  /** @param {string} id */
  function build(id) {
    const line = h("tr", { "data-row": id, class: options.open ? "can-open" : null },
      ...columns.map((column) => h("td", { class: cellClass(column), "data-field": column.name, "data-label": options.cards ? column.title : null })));
    built.set(id, line);
    return line;
  }

  /** @param {HTMLTableRowElement} line @param {T} row */
  function paint(line, row) {
    for (const [attribute, value] of Object.entries(options.props?.(row) ?? {})) setAttribute(line, attribute, value);
    columns.forEach((column, i) => {
      const cell = line.cells[i];
      if (column.paint) column.paint(cell, row);
      else setText(cell, textOf(column, row));
    });
  }

  /** @param {string} column */
  function sortBy(column) {
    const isSame = sort?.column === column;
    const numeric = columns.find((one) => one.name === column)?.numeric;
    sort = { column, direction: isSame ? (sort?.direction === 1 ? -1 : 1) : numeric ? -1 : 1 };
    choose();
  }

  /** @param {string} text */
  function setFilter(text) {
    filter = text;
    if (field.value !== text) field.value = text;
    scroller.scrollTop = 0;
    choose();
  }

  /** @param {number} index  of the row that gets the focus */
  function move(index) {
    if (!shown.length) return;
    const at = Math.min(Math.max(0, index), shown.length - 1);
    active = key(shown[at]);
    if (isLong()) {
      const top = at * rowHeight;
      const seen = scroller.clientHeight - rowHeight * 2;
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      else if (top > scroller.scrollTop + seen) scroller.scrollTop = top - seen;
    }
    render();
    built.get(active)?.focus();
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (!(event.target instanceof HTMLTableRowElement)) return;
    const at = shown.findIndex((row) => key(row) === active);
    const page = Math.max(1, Math.floor(scroller.clientHeight / rowHeight) - 2);
    const to = /** @type {Record<string, number>} */ ({
      ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1, PageDown: at + page, PageUp: at - page,
    })[event.key];
    if (to !== undefined) move(to);
    else if (event.key === "Enter" && options.open && shown[at]) options.open(shown[at]);
    else return;
    event.preventDefault();
  }

  /** @param {MouseEvent} event */
  function onClick(event) {
    if (!options.open || !(event.target instanceof Element)) return;
    if (event.target.closest("a, button, input, select") || getSelection()?.toString()) return;
    const id = event.target.closest("tr")?.dataset.row;
    const row = shown.find((one) => key(one) === id);
    if (row) options.open(row);
  }

  /** @param {FocusEvent} event */
  function onFocus(event) {
    const line = event.target instanceof Element ? event.target.closest("tr") : null;
    if (line?.dataset.row !== undefined) active = line.dataset.row;
  }

  return {
    element,
    setFilter,
    /** @param {T[]} next */
    update(next) {
      rows = next;
      isLoaded = true;
      choose();
    },
    unmount: () => resized.disconnect(),
  };
}

/** @param {{numeric?: boolean, minor?: boolean, wide?: boolean}} column */
function cellClass(column) {
  return [column.numeric && "num", column.minor && "minor", column.wide && "wide"].filter(Boolean).join(" ") || null;
}

/** @param {HTMLTableRowElement} spacer @param {number} height */
function size(spacer, height) {
  spacer.hidden = height <= 0;
  spacer.style.height = `${height}px`;
}
