// Where a partition is drawn. A block is a year of days, a month of hours, all months, or a part of a list of keys.

import { dayNumber, parts, type Axis } from "./axis.ts";

export interface Block {
  label: string;
  first: number;
  last: number;
  columns: number;
  rows: number;
  /** Rows of one line, where a block goes on over several lines; a small gap parts them. */
  rowsPerLine: number;
  /** What is written above a column, and left of a row. */
  heads: { column: number; line: number; text: string }[];
  sides: { row: number; text: string }[];
}

export interface Cell {
  column: number;
  row: number;
}

export interface Layout {
  blocks: Block[];
  blockOf(place: number): number;
  cell(place: number): Cell;
  /** The place at a cell of a block, undefined where nothing is. */
  at(block: number, cell: Cell): number | undefined;
  /** How far a step to the right and a step down go. */
  step: { right: number; down: number };
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const LIST_ROWS = 20;

/** Lay out an axis in lines of at most `columns` cells. */
export function layout(axis: Axis, columns: number): Layout {
  switch (axis.grain) {
    case "day":
      return days(axis, columns);
    case "hour":
      return hours(axis);
    case "month":
      return months(axis);
    case "key":
      return keys(axis, columns);
  }
}

function days(axis: Axis, columns: number): Layout {
  if (!axis.length) return nothing;
  const wide = Math.max(1, Math.min(54, columns));
  // Lines of equal length: half a year each, or a third.
  const weeks = Math.ceil(54 / Math.ceil(54 / wide));
  const start = ordinal(axis.key(0));
  const { year: oldest } = parts(axis.key(0));
  const { year: newest } = parts(axis.key(axis.length - 1));
  const years = Array.from({ length: newest - oldest + 1 }, (_, at) => oldest + at);
  const starts = years.map((year) => Math.max(0, dayNumber(year, 1, 1) - start));
  // The place of the Monday of the week in which a year begins.
  const mondays = years.map((year) => dayNumber(year, 1, 1) - weekday(dayNumber(year, 1, 1)) - start);
  const block = (place: number) => find(starts, place);
  const cell = (place: number): Cell => {
    const day = place - (mondays[block(place)] ?? 0);
    const week = Math.floor(day / 7);
    return { column: week % weeks, row: Math.floor(week / weeks) * 7 + (day % 7) };
  };
  const blocks = years.map((year, index): Block => {
    const first = starts[index] ?? 0;
    const last = (starts[index + 1] ?? axis.length) - 1;
    const heads = MONTHS.flatMap((text, month) => {
      // The month in which the first day lies has its name over that day.
      const begins = dayNumber(year, month + 1, 1) - start;
      const place = begins < first && dayNumber(year, month + 2, 1) - start > first ? first : begins;
      if (place < first || place > last) return [];
      const { column, row } = cell(place);
      return [{ column, line: Math.floor(row / 7), text }];
    });
    const lines = Math.floor(cell(last).row / 7) + 1;
    const sides = Array.from({ length: lines }, (_, line) =>
      ["Mon", "Wed", "Fri"].map((text, at) => ({ row: line * 7 + at * 2, text })),
    ).flat();
    return {
      label: axis.key(first).slice(0, 4),
      first,
      last,
      columns: weeks,
      rows: lines * 7,
      rowsPerLine: 7,
      heads: apart(heads, weeks),
      sides,
    };
  });
  return {
    blocks,
    blockOf: block,
    cell,
    at: (one, { column, row }) => {
      const week = Math.floor(row / 7) * weeks + column;
      return inside(blocks[one], week * 7 + (row % 7) + (mondays[one] ?? 0));
    },
    step: { right: 7, down: 1 },
  };
}

/** The day that a key is or is of, in days since 1970. */
function ordinal(key: string): number {
  const { year, month, day } = parts(key);
  return dayNumber(year, month, day);
}

/** The weekday of a day, from Monday, 0. */
export const weekday = (day: number) => (((day + 3) % 7) + 7) % 7;

function hours(axis: Axis): Layout {
  if (!axis.length) return nothing;
  const start = ordinal(axis.key(0)) * 24 + parts(axis.key(0)).hour;
  const from = parts(axis.key(0));
  const to = parts(axis.key(axis.length - 1));
  const oldest = from.year * 12 + from.month - 1;
  const months = Array.from({ length: to.year * 12 + to.month - oldest }, (_, at) => {
    const month = oldest + at;
    return dayNumber(Math.floor(month / 12), (month % 12) + 1, 1) * 24 - start;
  });
  const starts = months.map((place) => Math.max(0, place));
  const block = (place: number) => find(starts, place);
  const cell = (place: number): Cell => {
    const hour = place - (months[block(place)] ?? 0);
    return { column: Math.floor(hour / 24), row: hour % 24 };
  };
  const blocks = starts.map((first, index): Block => {
    const last = (starts[index + 1] ?? axis.length) - 1;
    const heads = [1, 8, 15, 22, 29].map((day) => ({ column: day - 1, line: 0, text: String(day) }));
    const sides = [0, 6, 12, 18].map((hour) => ({ row: hour, text: `${String(hour).padStart(2, "0")}h` }));
    return { label: axis.key(first).slice(0, 7), first, last, columns: 31, rows: 24, rowsPerLine: 24, heads, sides };
  });
  return {
    blocks,
    blockOf: block,
    cell,
    at: (one, { column, row }) => inside(blocks[one], (months[one] ?? 0) + column * 24 + row),
    step: { right: 24, down: 1 },
  };
}

function months(axis: Axis): Layout {
  if (!axis.length) return nothing;
  const start = parts(axis.key(0));
  const cell = (place: number): Cell => {
    const since = start.month - 1 + place;
    return { column: since % 12, row: Math.floor(since / 12) };
  };
  const rows = cell(axis.length - 1).row + 1;
  const only: Block = {
    label: "",
    first: 0,
    last: axis.length - 1,
    columns: 12,
    rows,
    rowsPerLine: rows,
    heads: MONTHS.filter((_, at) => at % 3 === 0).map((text, at) => ({ column: at * 3, line: 0, text })),
    sides: Array.from({ length: rows }, (_, row) => ({ row, text: String(start.year + row) })),
  };
  return {
    blocks: [only],
    blockOf: () => 0,
    cell,
    at: (_, { column, row }) => inside(only, row * 12 + column - start.month + 1),
    step: { right: 1, down: 12 },
  };
}

function keys(axis: Axis, columns: number): Layout {
  const wide = Math.max(1, columns);
  const size = wide * LIST_ROWS;
  const blocks = Array.from({ length: Math.ceil(axis.length / size) }, (_, index): Block => {
    const first = index * size;
    const last = Math.min(axis.length, first + size) - 1;
    const rows = Math.ceil((last - first + 1) / wide);
    return { label: axis.key(first), first, last, columns: wide, rows, rowsPerLine: rows, heads: [], sides: [] };
  });
  return {
    blocks,
    blockOf: (place) => Math.floor(place / size),
    cell: (place) => ({ column: (place % size) % wide, row: Math.floor((place % size) / wide) }),
    at: (one, { column, row }) => inside(blocks[one], one * size + row * wide + column),
    step: { right: 1, down: wide },
  };
}

const nothing: Layout = {
  blocks: [],
  blockOf: () => 0,
  cell: () => ({ column: 0, row: 0 }),
  at: () => undefined,
  step: { right: 1, down: 1 },
};

function find(starts: readonly number[], place: number): number {
  let low = 0;
  let high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= place) low = middle;
    else high = middle;
  }
  return low;
}

function inside(block: Block | undefined, place: number): number | undefined {
  return block !== undefined && place >= block.first && place <= block.last ? place : undefined;
}

/** Leave out a head that would stand on the one before it, or over the edge. */
function apart<T extends { column: number; line: number }>(heads: T[], columns: number): T[] {
  return heads.filter((head, at) => {
    const before = heads[at - 1];
    const stands = before !== undefined && before.line === head.line && head.column - before.column < 2;
    return !stands && head.column < columns - 1;
  });
}
