import assert from "node:assert/strict";
import { test } from "node:test";

import { list, rangeText, span } from "../src/axis.ts";
import { layout } from "../src/layout.ts";

const axes = {
  "ninety-two years of days": span("day", "1934-11-05", "2026-12-31"),
  "a year that begins on a Monday": span("day", "2024-01-01", "2024-12-31"),
  "days from the middle of a year": span("day", "2025-06-18", "2026-02-03"),
  "hours over the end of a month": span("hour", "2026-01-30T05", "2026-03-02T11"),
  "months from the middle of a year": span("month", "2019-05", "2026-11"),
  "a list of keys": list(Array.from({ length: 333 }, (_, at) => `shop-${at}`)),
};

for (const [name, axis] of Object.entries(axes)) {
  for (const columns of [54, 27, 23, 7]) {
    test(`${name}, ${columns} wide: each key has a cell of its own, and the cell leads back to the key`, () => {
      const drawn = layout(axis, columns);
      const taken = new Set<string>();

      for (let place = 0; place < axis.length; place += 1) {
        const block = drawn.blockOf(place);
        const cell = drawn.cell(place);
        assert.equal(drawn.at(block, cell), place);
        assert.ok(cell.column < (drawn.blocks[block]?.columns ?? 0) && cell.row < (drawn.blocks[block]?.rows ?? 0));
        taken.add(`${block}/${cell.column}/${cell.row}`);
      }

      assert.equal(taken.size, axis.length);
    });
  }
}

test("a key leads to its place and back, and what is no key has none", () => {
  for (const axis of Object.values(axes)) {
    for (const place of [0, 1, axis.length >> 1, axis.length - 1]) assert.equal(axis.place(axis.key(place)), place);
    for (const key of ["2026-02-30", "yesterday", "", "1900-01-01"]) assert.equal(axis.place(key), undefined);
  }
});

test("33,662 days are all the days between", () => {
  assert.equal(span("day", "1934-11-05", "2027-01-03").length, 33_663);
});

test("a day is in the row of its weekday", () => {
  const axis = span("day", "2026-01-01", "2026-12-31");
  const drawn = layout(axis, 54);

  assert.equal(drawn.cell(axis.place("2026-02-02") ?? -1).row, 0);
  assert.equal(drawn.cell(axis.place("2026-02-01") ?? -1).row, 6);
});

test("a range is written to the last day that it covers", () => {
  assert.equal(rangeText("2026-02-01", "2026-02-07"), "2026-02-01 – 2026-02-07");
  assert.equal(rangeText("2026-02-01", "2026-02-01"), "2026-02-01");
});
