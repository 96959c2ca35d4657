// The keys of a dataset in order, each with its place in the order: what is not there has a place too.

export type Grain = "day" | "hour" | "month" | "key";

export interface Axis {
  readonly grain: Grain;
  readonly length: number;
  /** The key at a place. */
  key(place: number): string;
  /** The place of a key, undefined if it has none. */
  place(key: string): number | undefined;
}

const DAY = 86_400_000;
const PATTERNS = {
  day: /^(\d{4})-(\d{2})-(\d{2})$/,
  hour: /^(\d{4})-(\d{2})-(\d{2})T(\d{2})$/,
  month: /^(\d{4})-(\d{2})$/,
};

/** The number of a key on its grain's own scale; undefined if it is no such key. */
function number(grain: "day" | "hour" | "month", key: string): number | undefined {
  const found = PATTERNS[grain].exec(key);
  if (found === null) return undefined;
  const [year = 0, month = 1, day = 1, hour = 0] = found.slice(1).map(Number);
  const value = grain === "month" ? year * 12 + month - 1 : (utc(year, month, day) + hour * 3_600_000) / unit(grain);
  return text(grain, value) === key ? value : undefined;
}

function text(grain: "day" | "hour" | "month", value: number): string {
  if (grain === "month") return `${pad(Math.floor(value / 12), 4)}-${pad((value % 12) + 1)}`;
  return new Date(value * unit(grain)).toISOString().slice(0, grain === "day" ? 10 : 13);
}

const unit = (grain: "day" | "hour") => (grain === "day" ? DAY : 3_600_000);
const pad = (value: number, width = 2) => String(value).padStart(width, "0");

/** Days since 1970-01-01, a Thursday. */
export const dayNumber = (year: number, month: number, day: number) => utc(year, month, day) / DAY;

/** Milliseconds of the midnight of a day: Date.UTC takes the years 0 to 99 for the twentieth century's. */
function utc(year: number, month: number, day: number): number {
  return new Date(0).setUTCFullYear(year, month - 1, day);
}

/** All keys from the first to the last, inclusive. */
export function span(grain: "day" | "hour" | "month", first: string, last: string): Axis {
  const start = number(grain, first);
  const end = number(grain, last);
  if (start === undefined || end === undefined) throw new RangeError(`no ${grain}s: ${first} to ${last}`);
  const length = Math.max(0, end - start + 1);
  return {
    grain,
    length,
    key: (place) => text(grain, start + place),
    place: (key) => {
      const value = number(grain, key);
      return value === undefined || value < start || value > end ? undefined : value - start;
    },
  };
}

/** Keys that have no order but that in which they are given. */
export function list(keys: readonly string[]): Axis {
  const places = new Map(keys.map((key, place) => [key, place]));
  return { grain: "key", length: keys.length, key: (place) => keys[place] ?? "", place: (key) => places.get(key) };
}

/** Year, month, day of the month and hour of a key. */
export function parts(key: string): { year: number; month: number; day: number; hour: number } {
  const [year = 0, month = 1, day = 1, hour = 0] = key.split(/[-T]/).map(Number);
  return { year, month, day, hour };
}

/** A range in words, its end the last one that it covers. */
export function rangeText(first: string, last: string): string {
  return first === last ? first : `${first} – ${last}`;
}

const NOUNS = { day: ["day", "days"], hour: ["hour", "hours"], month: ["month", "months"], key: ["key", "keys"] };

/** `1 day`, `1,024 days`. */
export function counted(count: number, grain: Grain): string {
  return `${count.toLocaleString("en-US")} ${NOUNS[grain][count === 1 ? 0 : 1]}`;
}
