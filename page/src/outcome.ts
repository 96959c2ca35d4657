// Which partitions a run has made, and which it left as they were.

import type { RunLink } from "./server.ts";
import type { View } from "./view.ts";

export interface Outcome {
  made: number;
  /** The places that it left, in order: sealed, held by another, refused, or with the same figures as before. */
  left: number[];
}

export function outcome(view: View, { dag_id, run_id }: RunLink, spans: readonly (readonly [string, string])[]): Outcome {
  const { axis, told } = view;
  const run = told.runs.indexOf(`${dag_id}/${run_id}`);
  const places = spans.flatMap(([from, to]) => {
    const [first, last] = [axis.place(from), axis.place(to)];
    return first === undefined || last === undefined ? [] : view.places(first, last, []);
  });
  const left = places.filter((place) => run < 0 || told.written_in[place] !== run);
  return { made: places.length - left.length, left };
}
