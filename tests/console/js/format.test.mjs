import assert from "node:assert/strict";
import test from "node:test";

import * as f from "../../../src/penstock/console/static/format.js";

test("decimals keep every digit that the server wrote", () => {
  assert.equal(f.decimal("61234.50000000"), "61,234.50000000");
  assert.equal(f.decimal("12345678901234567890.123456789012345678"), "12,345,678,901,234,567,890.123456789012345678");
  assert.equal(f.decimal("0.00000001"), "0.00000001");
  assert.equal(f.decimal("-1000"), "-1,000");
  assert.equal(f.decimal("1E-9"), "1E-9");
});

test("what is unknown is a dash, and zero is zero", () => {
  for (const show of [f.decimal, f.count, f.compact, f.rate, f.percent, f.bytes, f.duration, f.utc, f.utcDay, f.utcTime]) {
    assert.equal(show(null), "–");
    assert.equal(show(undefined), "–");
  }
  assert.equal(f.ago(null, 0), "–");
  assert.deepEqual([f.count(0), f.rate(0), f.bytes(0), f.duration(0)], ["0", "0", "0 B", "0 ms"]);
  assert.equal(f.utc(Number.NaN), "–");
  assert.equal(f.utc(1e17), "–");
});

test("a share is rounded down: only what is complete reads as 100 %", () => {
  assert.equal(f.percent(1), "100 %");
  assert.equal(f.percent(0.99999), "99.9 %");
  assert.equal(f.percent(0.999999, 2), "99.99 %");
  assert.equal(f.percent(0), "0.0 %");
  assert.equal(f.percent(0.29), "29.0 %");
});

test("sizes, rates and durations take the unit that fits", () => {
  assert.deepEqual([1023, 1024, 1536, 150 * 1024, 3.5 * 2 ** 40].map(f.bytes), ["1023 B", "1.0 KiB", "1.5 KiB", "150 KiB", "3.5 TiB"]);
  assert.deepEqual([0.4, 9.9, 12345.6].map(f.rate), ["0.4", "9.9", "12,346"]);
  assert.deepEqual([950, 12345, 250_000, 7.2e6].map(f.compact), ["950", "12.3 k", "250 k", "7.2 M"]);
  assert.deepEqual([0, 0.05, 0.15, 1.25, 3].map(f.compact), ["0", "0.05", "0.15", "1.25", "3"]);
  assert.deepEqual([0.01, 0.06, 9.5, 12].map(f.rate), ["< 0.1", "0.1", "9.5", "12"]);
  assert.deepEqual([40, 3210, 65_000, 3_600_000, 183_900_000, 86_400_000].map(f.duration), ["40 ms", "3.2 s", "1 m 5 s", "1 h", "2 d 3 h", "1 d"]);
  assert.equal(f.duration(-2500), "-2.5 s");
});

test("times are in UTC", () => {
  const ms = Date.UTC(2026, 10, 18, 7, 5, 9, 42);
  assert.equal(f.utc(ms), "2026-11-18 07:05:09");
  assert.equal(f.utcTime(ms, true), "07:05:09.042");
  assert.equal(f.ago(ms, ms + 500), "now");
  assert.equal(f.ago(ms, ms + 59_999), "59 s ago");
  assert.equal(f.ago(ms + 120_000, ms), "in 2 m");
  assert.match(f.timeTitle(ms), /^2026-11-18 07:05:09 UTC\n/);
});
