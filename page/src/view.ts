// A dataset as the page shows it: an axis of all its keys, and of each what it is, what it holds, when and by whom.

import { list, span, type Axis, type Grain } from "./axis.ts";
import type { DatasetTold } from "./server.ts";
import { LOOKS, STATES, type State } from "./states.ts";
import { time } from "./texts.ts";

export interface View {
  told: DatasetTold;
  axis: Axis;
  letters: string;
  counts: Record<State, number>;
  state: (place: number) => State;
  sealed: (place: number) => boolean;
  describe: (place: number, zone: string) => string[];
  values: (measure: string) => (number | undefined)[];
  /** The places from first to last that are one of these states; all where none is named. */
  places: (first: number, last: number, states: readonly State[]) => number[];
}

export const NARROWED = { All: [], Missing: ["missing"], Failed: ["failed"], Late: ["late"] } as const;
export type Narrowing = keyof typeof NARROWED;

export function viewOf(told: DatasetTold): View {
  const axis = told.keys === null ? span(told.grain as Exclude<Grain, "key">, told.first, told.last) : list(told.keys);
  const letters = told.states.padEnd(axis.length, "0").slice(0, axis.length);
  const counts = Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
  const state = (place: number): State => STATES[letters.charCodeAt(place) - 48] ?? "missing";
  for (let place = 0; place < axis.length; place += 1) counts[state(place)] += 1;
  return {
    told,
    axis,
    letters,
    counts,
    state,
    sealed: (place) => told.sealed[place] === "1",
    describe: (place, zone) => {
      const lines = [axis.key(place), LOOKS[state(place)].word];
      const holder = told.holders[axis.key(place)];
      if (holder !== undefined) lines.push(`held by ${holder.by}`);
      const at = told.published_at[place];
      const by = told.by[told.writers[place] ?? -1];
      if (at) lines.push(`${time(at, zone)}${by === undefined ? "" : ` by ${by}`}`);
      return lines;
    },
    values: (measure) => (told.figures[measure] ?? []).map((value) => (value === null ? undefined : Number(value))),
    places: (first, last, states) => {
      const found = [];
      for (let place = first; place <= last; place += 1) {
        if (states.length === 0 || states.includes(state(place))) found.push(place);
      }
      return found;
    },
  };
}
