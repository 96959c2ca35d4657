// A measure as a line, in a box of its own units.

export const HEIGHT = 96;
export const WIDTH = 1000;
export const TOP = 6;

/** Where a place is, from left to right. */
export const across = (place: number, length: number) => (length < 2 ? WIDTH / 2 : (place / (length - 1)) * WIDTH);

/** The line, at most two points a pixel: of what falls on one, the lowest and the highest. `marks` are to fit in too. */
export function line(
  values: readonly (number | undefined)[],
  marks: readonly (number | undefined)[] = [],
): { path: string; lowest: number; highest: number } {
  let lowest = Infinity;
  let highest = -Infinity;
  for (const value of [...values, ...marks]) {
    if (value === undefined) continue;
    lowest = Math.min(lowest, value);
    highest = Math.max(highest, value);
  }
  if (lowest > highest) return { path: "", lowest: 0, highest: 0 };
  // From nothing upwards, unless all of it is far from nothing.
  if (lowest > 0 && lowest < highest / 2) lowest = 0;
  const y = (value: number) =>
    (TOP + (HEIGHT - 2 * TOP) * (highest === lowest ? 0.5 : 1 - (value - lowest) / (highest - lowest))).toFixed(1);
  const each = Math.max(1, Math.ceil(values.length / WIDTH));
  let path = "";
  let broken = true;
  for (let start = 0; start < values.length; start += each) {
    const seen = values.slice(start, start + each).filter((value) => value !== undefined);
    if (seen.length === 0) {
      broken = true;
      continue;
    }
    const at = across(Math.min(values.length - 1, start), values.length).toFixed(1);
    const low = Math.min(...seen);
    const high = Math.max(...seen);
    path += `${broken ? "M" : "L"}${at} ${y(low)}`;
    // A point that stands alone is a short stroke.
    if (high !== low) path += `L${at} ${y(high)}`;
    else if (broken) path += "h0.1";
    broken = false;
  }
  return { path, lowest, highest };
}
