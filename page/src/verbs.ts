// What may be done with some partitions, and what will happen then, in words.

import { counted, rangeText, type Axis } from "./axis.ts";
import type { View } from "./view.ts";

export interface Verb {
  name: "Backfill" | "Seal" | "Amend" | "Claim" | "Release" | "Unseal";
  /** What it is done to: `2026-02-01 – 2026-02-07 (7 days)`. */
  what: string;
  consequences: string[];
  /** Why it can't be done now. */
  not: string | undefined;
  /** The DAG whose form is filled in; undefined where the server does it at once. */
  dag: string | undefined;
  spans: [string, string][];
}

/** A form of a DAG makes one run; so many runs at once are enough. */
const MOST_RUNS = 20;

/** Part places, in order, into runs without a gap. */
export function spansOf(places: readonly number[]): [number, number][] {
  const found: [number, number][] = [];
  for (const place of places) {
    const last = found.at(-1);
    if (last !== undefined && last[1] + 1 === place) last[1] = place;
    else found.push([place, place]);
  }
  return found;
}

/** Part places as one request names them: keys that are no time have no order, so each stands for itself. */
export function spansIn({ grain }: Axis, places: readonly number[]): [number, number][] {
  return grain === "key" ? places.map((place) => [place, place]) : spansOf(places);
}

/** How many runs of a form it takes: one a span of time, and one for all other keys. */
export const runsOf = (axis: Axis, places: readonly number[]) => (axis.grain === "key" ? Math.min(1, places.length) : spansOf(places).length);

export function offered(view: View, places: readonly number[]): Verb[] {
  const { axis, told } = view;
  const held = places.filter((place) => told.holders[axis.key(place)] !== undefined);
  const sealed = places.filter((place) => view.sealed(place));
  const open = places.filter((place) => !view.sealed(place));
  const fill = (of: readonly number[]): Pick<Verb, "what" | "spans"> => {
    const spans = spansIn(axis, of).map(([first, last]): [string, string] => [axis.key(first), axis.key(last)]);
    const text = spans.map(([first, last]) => rangeText(first, last));
    const shown = text.length > 3 ? [...text.slice(0, 2), `${text.length - 2} more`] : text;
    return { spans, what: `${shown.join(", ")}${of.length > 1 ? ` (${counted(of.length, axis.grain)})` : ""}` };
  };
  const count = (of: readonly number[]) => counted(of.length, axis.grain);
  const others = held.filter((place) => told.holders[axis.key(place)]?.by !== told.user);
  const holders = [...new Set(held.map((place) => told.holders[axis.key(place)]?.by ?? ""))].join(", ");
  const why = (dag: string | null, ...reasons: (string | false)[]) =>
    told.why_not ??
    reasons.find((reason) => reason !== false) ??
    (dag === null
      ? "No DAG with such a form writes it"
      : told.paused.includes(dag)
        ? `The DAG ${dag} is paused: a run would wait until it is switched on`
        : undefined);
  const runs = runsOf(axis, places);
  const verbs: Verb[] = [
    {
      name: "Backfill",
      ...fill(places),
      dag: told.dags.range ?? undefined,
      not: why(told.dags.range, places.length === 0 && "Nothing is chosen", runs > MOST_RUNS && `That would be ${runs} runs; choose a shorter range`),
      consequences: [
        `${runs === 1 ? "A run" : `${runs} runs`} of the DAG ${told.dags.range} make${runs === 1 ? "s" : ""} ${count(places)} of ${told.dataset} again, from the source as it is now.`,
        "Each takes the place of what readers have, whole, or is left as it is and said why.",
        ...(sealed.length > 0 ? [`${count(sealed)} sealed: left as ${sealed.length === 1 ? "it is" : "they are"}.`] : []),
        ...(others.length > 0 ? [`${count(others)} held by others: a run that meets one waits, for a day at most.`] : []),
      ],
    },
    {
      name: "Seal",
      ...fill(open),
      dag: told.dags.seal ?? undefined,
      not: why(told.dags.seal, open.length === 0 && "All of it is sealed", runsOf(axis, open) > MOST_RUNS && "Choose a shorter range"),
      consequences: [
        `${count(open)} of ${told.dataset} ${open.length === 1 ? "is" : "are"} declared as sent.`,
        "No run changes a sealed partition any more; what turns out to be right is recorded beside it, by Amend.",
      ],
    },
    {
      name: "Amend",
      ...fill(places),
      dag: told.dags.amend ?? undefined,
      not: why(told.dags.amend, places.length > 1 && "A correction is of one partition", sealed.length === 0 && "Only what is sealed is corrected beside; anything else is made again"),
      consequences: [
        "Its source is counted again, and what is right now is recorded beside what was sent, with your reason.",
        "What was sent stays as it is.",
      ],
    },
    {
      name: "Claim",
      ...fill(places),
      dag: undefined,
      not: told.why_not ?? (held.length > 0 ? `Held by ${holders}` : undefined),
      consequences: [`${count(places)} of ${told.dataset} ${places.length === 1 ? "is" : "are"} reserved in your name.`, "Until you release them, only runs in your name may write them; every other says that you hold them."],
    },
    {
      name: "Release",
      ...fill(held),
      dag: undefined,
      not: told.why_not ?? (held.length === 0 ? "Nobody holds it" : undefined),
      consequences: [
        `${count(held)} held by ${holders} ${held.length === 1 ? "is" : "are"} free again.`,
        "If a run of theirs is still writing, it publishes nothing there any more, unless it is doing so just now.",
      ],
    },
    {
      name: "Unseal",
      ...fill(sealed),
      dag: told.dags.unseal ?? undefined,
      not: why(told.dags.unseal, sealed.length === 0 && "Nothing of it is sealed", runsOf(axis, sealed) > MOST_RUNS && "Choose a shorter range"),
      consequences: [
        `The seal of ${count(sealed)} is taken away: the next run may change what was sent.`,
        "What was sent, and every correction, stays in the history.",
      ],
    },
  ];
  return verbs;
}
