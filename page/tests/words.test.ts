import assert from "node:assert/strict";
import { test } from "node:test";

import { line } from "../src/line.ts";
import { outcome } from "../src/outcome.ts";
import { sorted } from "../src/needs.ts";
import { forms, type DatasetTold, type Overview } from "../src/server.ts";
import { LOOKS, STATES } from "../src/states.ts";
import { ago, figure, time } from "../src/texts.ts";
import { offered, spansOf } from "../src/verbs.ts";
import { viewOf } from "../src/view.ts";

function told(states: string, more: Partial<DatasetTold> = {}): DatasetTold {
  const last = new Date(Date.UTC(2026, 1, states.length)).toISOString().slice(0, 10);
  return {
    dataset: "shop.orders_daily",
    grain: "day",
    timezone: "UTC",
    first: "2026-02-01",
    last,
    keys: null,
    states,
    sealed: [...states].map((state) => ("347".includes(state) ? "1" : "0")).join(""),
    measures: ["orders"],
    figures: { orders: [...states].map((state) => (state === "0" ? null : "7")) },
    published_at: [...states].map(() => null),
    writers: [...states].map(() => -1),
    by: [],
    written_in: [...states].map(() => -1),
    runs: [],
    holders: {},
    corrections: [],
    dags: { daily: "orders", range: "orders.range", seal: "orders.seal", unseal: "orders.unseal", amend: "orders.amend", plan: null },
    paused: [],
    user: "anna",
    why_not: null,
    ...more,
  };
}

function verb(name: string, states: string, more: Partial<DatasetTold> = {}) {
  const view = viewOf(told(states, more));
  const found = offered(view, [...states].map((_, place) => place)).find((one) => one.name === name);
  assert.ok(found);
  return found;
}

test("a backfill of what is missing is a run for each gap", () => {
  const view = viewOf(told("1001011"));
  const [backfill] = offered(view, view.places(0, 6, ["missing"]));

  assert.deepEqual(backfill?.spans, [
    ["2026-02-02", "2026-02-03"],
    ["2026-02-05", "2026-02-05"],
  ]);
  assert.equal(backfill?.what, "2026-02-02 – 2026-02-03, 2026-02-05 (3 days)");
  assert.match(backfill?.consequences[0] ?? "", /^2 runs of the DAG orders.range make 3 days/);
});

test("a backfill says what it will leave alone", () => {
  const held = { holders: { "2026-02-03": { by: "bob", run: null } } };
  const said = verb("Backfill", "132", held).consequences.join(" ");

  assert.match(said, /1 day sealed: left as it is/);
  assert.match(said, /1 day held by others/);
});

test("what can't be done is offered with the reason why not", () => {
  assert.equal(verb("Amend", "1").not, "Only what is sealed is corrected beside; anything else is made again");
  assert.equal(verb("Amend", "3").not, undefined);
  assert.equal(verb("Seal", "33").not, "All of it is sealed");
  assert.equal(verb("Unseal", "11").not, "Nothing of it is sealed");
  assert.equal(verb("Release", "11").not, "Nobody holds it");
  assert.equal(verb("Backfill", "11", { why_not: "You may look only" }).not, "You may look only");
});

test("sealing goes around what is sealed already", () => {
  assert.deepEqual(verb("Seal", "131").spans, [
    ["2026-02-01", "2026-02-01"],
    ["2026-02-03", "2026-02-03"],
  ]);
});

test("spans are whole again when they are put together", () => {
  const places = [0, 1, 2, 5, 7, 8, 40];
  const spans = spansOf(places);

  assert.deepEqual(
    spans.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at)),
    places,
  );
  assert.equal(spans.length, 4);
});

test("an answer that is shorter than its dataset leaves the rest missing", () => {
  const view = viewOf({ ...told("11"), last: "2026-02-04" });

  assert.deepEqual(view.counts, { ...view.counts, published: 2, missing: 2 });
});

test("a dataset that needs a person is before one that doesn't, a failure before a gap", () => {
  const one = (dataset: string, more: Partial<Overview>): Overview => ({
    dataset,
    dags: [],
    newest: null,
    sealed_up_to: null,
    published: 1,
    missing: 0,
    held: 0,
    failed: 0,
    late: null,
    drifted: 0,
    checked_at: null,
    changed: null,
    ...more,
  });
  const given = [one("a", {}), one("b", { missing: 3 }), one("c", { failed: 1 }), one("d", { late: 2 })];

  assert.deepEqual(
    sorted(given).map(({ dataset }) => dataset),
    ["c", "d", "b", "a"],
  );
});

test("keys that are no days are each for itself, and one run of a form has them all", () => {
  const of = told("131", { grain: "key", keys: ["DE", "it's a/b", "PL"], first: "DE", last: "PL" });
  const view = viewOf(of);
  const [backfill, seal] = offered(view, [0, 1, 2]);

  assert.deepEqual(backfill?.spans, [["DE", "DE"], ["it's a/b", "it's a/b"], ["PL", "PL"]]);
  assert.equal(backfill?.what, "DE, it's a/b, PL (3 keys)");
  assert.match(backfill?.consequences[0] ?? "", /^A run of the DAG orders.range makes 3 keys/);
  assert.deepEqual(backfill && forms(of, backfill), [{ keys: ["DE", "it's a/b", "PL"] }]);
  assert.deepEqual(seal && forms(of, seal), [{ keys: ["DE", "PL"] }]);
  assert.deepEqual(forms(of, { name: "Amend", spans: [["DE", "DE"]] }), [{ key: "DE" }]);
  assert.deepEqual(forms(told("11"), { name: "Amend", spans: [["2026-02-01", "2026-02-01"]] }), [{ date: "2026-02-01" }]);
  const run = { dag_id: "orders.range", run_id: "a" };
  const done = viewOf({ ...of, runs: ["orders.range/a"], written_in: [0, -1, 0] });
  assert.deepEqual(outcome(done, run, backfill?.spans ?? []), { made: 2, left: [1] });
});

test("figures keep all of their digits", () => {
  assert.equal(figure("12345678901234567890.10"), "12,345,678,901,234,567,890.10");
  assert.equal(figure("-1234"), "-1,234");
  assert.equal(figure(null), "–");
});

test("times are written as Airflow writes them, in the zone that was chosen", () => {
  assert.equal(time("2026-03-28T23:00:00Z", "Europe/Warsaw"), "2026-03-29 00:00:00");
  assert.equal(time("2026-03-28T23:00:00", "UTC"), "2026-03-28 23:00:00");
  assert.equal(ago("2026-03-28T23:00:00Z", Date.parse("2026-03-29T01:30:00Z")), "2 hours ago");
});

test("a line has at most two points a pixel, and a gap where nothing is", () => {
  const { path, lowest, highest } = line(Array.from({ length: 33_662 }, (_, at) => (at === 20_000 ? 900 : at % 7)));
  assert.ok(path.split(/[ML]/).length < 2_100);
  assert.deepEqual([lowest, highest], [0, 900]);

  assert.equal(line([1, undefined, 2]).path.split("M").length, 3);
  assert.equal(line([undefined]).path, "");
});

test("no two states have the same shape, letter or word", () => {
  const of = (what: (state: (typeof STATES)[number]) => string) => new Set(STATES.map(what)).size;

  assert.equal(of((state) => LOOKS[state].path(0, 0, 10)), STATES.length);
  assert.equal(of((state) => LOOKS[state].word), STATES.length);
});

test("of a run it is said which partitions it made and which it left", () => {
  const view = viewOf(told("1311", { runs: ["orders.range/a", "orders/b"], written_in: [0, 1, 0, 1] }));

  assert.deepEqual(outcome(view, { dag_id: "orders.range", run_id: "a" }, [["2026-02-01", "2026-02-03"]]), { made: 2, left: [1] });
  assert.deepEqual(outcome(view, { dag_id: "orders.range", run_id: "c" }, [["2026-02-01", "2026-02-02"]]), { made: 0, left: [0, 1] });
});
