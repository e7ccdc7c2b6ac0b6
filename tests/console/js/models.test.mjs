import assert from "node:assert/strict";
import test from "node:test";

import { digitsOf, lowerBound, merge, shadeOf, shadesOf, shorten, timesOf } from "../../../src/penstock/console/static/parts/candle-model.js";
import * as heat from "../../../src/penstock/console/static/parts/heat-model.js";
import { freshOf } from "../../../src/penstock/console/static/parts/tape.js";
import { compare, filterRows, sortRows, windowOf } from "../../../src/penstock/console/static/parts/rows.js";
import { documentOf, match, path, PAGES } from "../../../src/penstock/console/static/router.js";
import { words } from "../../../src/penstock/console/static/api.js";

test("each cell is hit where it is drawn, at any width and scroll position", () => {
  for (const width of [336, 640, 1153, 1600]) {
    for (const columns of [1, 14, 24, 60, 90]) {
      const layout = heat.layoutOf(width, columns, 40);
      for (const scrollTop of [0, 7, 333]) {
        for (const cell of [{ row: 20, column: 0 }, { row: 21, column: columns - 1 }, { row: 30, column: columns >> 1 }]) {
          const box = heat.boxOf(layout, cell, scrollTop);
          if (box.y < layout.top) continue;
          assert.deepEqual(heat.cellAt(layout, box.x + box.width / 2, box.y + box.height / 2, scrollTop), cell);
        }
      }
    }
  }
});

test("beside the cells nothing is hit", () => {
  const layout = heat.layoutOf(1000, 10, 3);
  assert.equal(heat.cellAt(layout, layout.left - 1, 40, 0), null);
  assert.equal(heat.cellAt(layout, layout.left + 5, layout.top - 1, 0), null);
  assert.equal(heat.cellAt(layout, layout.right + 1, 40, 0), null);
  assert.equal(heat.cellAt(layout, layout.left + 5, layout.top + 3 * layout.rowHeight, 0), null);
});

test("keys move within the map and stop at its edges", () => {
  const layout = heat.layoutOf(1000, 10, 3);
  const from = { row: 1, column: 9 };
  assert.deepEqual(heat.moved(layout, from, "ArrowRight", 2), from);
  assert.deepEqual(heat.moved(layout, from, "ArrowUp", 2), { row: 0, column: 9 });
  assert.deepEqual(heat.moved(layout, from, "PageDown", 20), { row: 2, column: 9 });
  assert.deepEqual(heat.moved(layout, from, "Home", 2), { row: 1, column: 0 });
  assert.equal(heat.moved(layout, from, "x", 2), null);
});

test("characters of the map are told in words", () => {
  assert.equal(heat.wordsOfCell("7"), "at least 70 % there");
  assert.equal(heat.wordsOfCell("f"), "complete");
  assert.equal(heat.wordsOfCell("?"), "nothing expected");
  assert.deepEqual(heat.countCells("..09fFug"), { none: 2, part: 2, full: 1, filled: 1, never: 1, open: 1 });
  assert.equal(heat.shareOf([{ share: null }, { share: 1 }, { share: 0.5 }]), 0.75);
  assert.equal(heat.shareOf([{ share: null }]), null);
});

test("holes between candles are as wide as they lasted", () => {
  const candles = [0, 1, 2, 7, 8].map((i) => [i * 60_000, "1", "1", "1", "1", "1"]);
  const times = timesOf(candles, 60_000);
  assert.equal(times.length, 9);
  assert.deepEqual(shadeOf(times, 60_000, { since_ms: 180_000, until_ms: 420_000 }), { from: 2.5, to: 6.5 });
  assert.deepEqual(shadeOf(times, 60_000, { since_ms: 170_000, until_ms: 421_000 }), { from: 1.5, to: 7.5 });
  assert.deepEqual(shadeOf(times, 60_000, { since_ms: 480_000, until_ms: null }), { from: 7.5, to: 8.5 });
  assert.equal(shadeOf(times, 60_000, { since_ms: 1e9, until_ms: 2e9 }), null);
  assert.equal(shadeOf([], 60_000, { since_ms: 0, until_ms: 1 }), null);
  assert.equal(timesOf([candles[0], [1e12, "1", "1", "1", "1", "1"]], 1000).length, 2);
  assert.equal(lowerBound([1, 3, 5], 4), 2);
});

test("newer candles replace those of the same time", () => {
  assert.deepEqual(merge([[1, "a"], [2, "b"]], [[2, "c"], [3, "d"]], 2), [[2, "c"], [3, "d"]]);
});

test("rows: unknown values last in both directions, numbers within text as numbers", () => {
  const rows = [{ v: "m10" }, { v: null }, { v: "m9" }];
  assert.deepEqual(sortRows(rows, (row) => row.v, 1).map((row) => row.v), ["m9", "m10", null]);
  assert.deepEqual(sortRows(rows, (row) => row.v, -1).map((row) => row.v), ["m10", "m9", null]);
  assert.ok(compare(2, 10, 1) < 0);
  assert.deepEqual(filterRows(["BTC binance", "ETH kraken"], "  KRA eth ", (row) => row), ["ETH kraken"]);
});

test("only the rows in view are built", () => {
  const { first, last } = windowOf(100_000, 37 * 500, 600, 37);
  assert.ok(first <= 500 && last >= 517 && last - first < 40);
  assert.deepEqual(windowOf(0, 0, 600, 37), { first: 0, last: 0 });
  assert.deepEqual(windowOf(10, 1e9, 600, 37), { first: 2, last: 10 });
});

test("addresses lead to pages and back", () => {
  assert.deepEqual(match("/"), { page: "overview", params: {} });
  assert.equal(path("market", "binance", "BTC/USDT:USDT"), "/market/binance/BTC%2FUSDT%3AUSDT");
  assert.deepEqual(match(path("market", "binance", "BTC/USDT:USDT")).params, { exchange: "binance", symbol: "BTC/USDT:USDT" });
  assert.deepEqual(match("/jobs/17"), { page: "jobs", params: { id: "17" } });
  for (const page of PAGES) assert.equal(match(path(page.name)).page, page.name);
  for (const wrong of ["/x", "/market/binance", "/limits/x", "/jobs/1/2", "/market/a/%E0%A4%A"]) assert.equal(match(wrong), null);
  assert.equal(new Set(PAGES.map((page) => page.key)).size, PAGES.length);
});

test("an error is told in the server's words, else in words for its status", () => {
  assert.equal(words(409, { detail: "It runs." }), "It runs.");
  assert.equal(words(500, null), "The server answered with status 500.");
  assert.match(words(403, {}), /control token/);
});

test("zeros at the end of prices are left out, and nothing else", () => {
  assert.equal(shorten("645.28000000", 2), "645.28");
  assert.equal(shorten("645.20000000", 2), "645.20");
  assert.equal(shorten("100", 2), "100");
  assert.equal(shorten("0.00001200", 2), "0.000012");
  assert.equal(shorten("7.000", 0), "7");
  assert.equal(digitsOf([[0, "1.50", "2.25000", "1.0", "1.125", "9"]]), 3);
  assert.equal(digitsOf([]), 2);
});

test("topics without a socket are read from the API", () => {
  assert.equal(documentOf("overview"), "/overview");
  assert.equal(documentOf("jobs"), "/jobs/summary");
  assert.equal(documentOf("market/binance/BTC/USDT:USDT"), "/market/binance/BTC%2FUSDT%3AUSDT");
  assert.equal(documentOf("market/binance/BTC/USDT?interval=5s"), "/market/binance/BTC%2FUSDT?interval=5s");
  assert.equal(documentOf("coverage"), null);
});

test("only trades that are not on the tape yet are written", () => {
  const trades = (...ids) => ids.map((id) => ({ id }));
  assert.equal(freshOf([], trades("3", "2")), 2);
  assert.equal(freshOf(["2", "1"], trades("4", "3", "2", "1")), 2);
  assert.equal(freshOf(["2", "1"], trades("2", "1")), 0);
  assert.equal(freshOf(["3", "2", "1"], trades("4", "3", "2")), 1);
  assert.equal(freshOf(["9"], trades("4", "3")), 2);
  assert.equal(freshOf(["3", "1"], trades("4", "3", "2", "1")), 4);
});

test("holes in the same bar are one band", () => {
  const times = [0, 60_000, 120_000, 180_000];
  const gap = (since_ms, until_ms, state) => ({ since_ms, until_ms, state });
  const found = shadesOf(times, 60_000, [gap(130_000, 130_100, "unfillable"), gap(61_000, 61_100, "unfillable"), gap(62_000, 62_100, "open"), gap(1e9, 2e9, "open")]);
  assert.deepEqual(found, [{ from: 0.5, to: 1.5, state: "open" }, { from: 1.5, to: 2.5, state: "unfillable" }]);
});
