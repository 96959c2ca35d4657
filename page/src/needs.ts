// Which datasets need a person, and for what.

import type { Overview } from "./server.ts";

/** What needs a person, the worst first. */
export function needs(one: Overview): { palette: string; text: string }[] {
  const found = [];
  if ((one.failed ?? 0) > 0) found.push({ palette: "red", text: `${one.failed} failed` });
  if ((one.drifted ?? 0) > 0) found.push({ palette: "orange", text: `${one.drifted} drifted` });
  if ((one.late ?? 0) > 0) found.push({ palette: "orange", text: `${one.late} late` });
  if ((one.missing ?? 0) > 0) found.push({ palette: "yellow", text: `${one.missing} missing` });
  return found;
}

/** How badly it needs a person. */
export const weight = (one: Overview) =>
  ((one.failed ?? 0) > 0 ? 8 : 0) + ((one.drifted ?? 0) > 0 ? 4 : 0) + ((one.late ?? 0) > 0 ? 2 : 0) + ((one.missing ?? 0) > 0 ? 1 : 0);

/** First what needs a person, then by name. */
export function sorted(datasets: readonly Overview[]): Overview[] {
  return [...datasets].sort((a, b) => weight(b) - weight(a) || a.dataset.localeCompare(b.dataset));
}
