// What the page asks the server and what it is told.

import { useCallback, useEffect, useRef, useState } from "react";

import type { Verb } from "./verbs.ts";

export interface Overview {
  dataset: string;
  dags: string[];
  newest: string | null;
  sealed_up_to: string | null;
  published: number;
  missing: number | null;
  held: number;
  /** Null where that isn't known, as of the runner's `daily`. */
  failed: number | null;
  late: number | null;
  drifted: number | null;
  checked_at: string | null;
  changed: { at: string; by: string } | null;
}

export type Figures = Record<string, string | number | null>;

/** A dataset with all of its partitions; each list has one entry a key, from the first key to the last. */
export interface DatasetTold {
  dataset: string;
  grain: string;
  timezone: string;
  first: string;
  last: string;
  /** The keys where they are no span of time, else null. */
  keys: string[] | null;
  /** One digit a key: 0 missing, 1 published, 2 held, 3 sealed, 4 corrected, 5 failed, 6 drifted, 7 late. */
  states: string;
  /** One digit a key: 1 where it is sealed, whatever else it is. */
  sealed: string;
  measures: string[];
  figures: Record<string, (string | null)[]>;
  published_at: (string | null)[];
  /** By key, the place in `by` of who published it; -1 for nobody. */
  writers: number[];
  by: string[];
  /** By key, the place in `runs` of the run that wrote it last, `dag/run`; -1 for none. */
  written_in: number[];
  runs: string[];
  holders: Record<string, { by: string; run: string | null }>;
  corrections: { key: string; at: string; right: Figures }[];
  dags: Dags;
  /** Those of them that are paused. */
  paused: string[];
  /** As whom Airflow knows this user. */
  user: string;
  /** Why this user may change nothing; null where that isn't so. */
  why_not: string | null;
}

/** The DAGs that write the dataset, by what they are for; null where there is none. */
export interface Dags {
  daily: string | null;
  range: string | null;
  seal: string | null;
  unseal: string | null;
  amend: string | null;
  /** The one whose form can only plan, and the task that does it. */
  plan: { dag_id: string; task_id: string } | null;
}

export interface One {
  key: string;
  figures: Figures | null;
  published_at: string | null;
  owner: string | null;
  reason: string | null;
  run: RunLink | null;
  sealed: boolean;
  holders: { by: string; claim: string; run: RunLink | null }[];
  failure: string | null;
  failed_at: string | null;
  drift: string | null;
  checked_at: string | null;
  late: string | null;
  compared_at: string | null;
  corrections: { at: string; by: string; reason: string; before: Figures | null; after: Figures | null }[];
  history: HistoryLine[];
}

export interface RunLink {
  dag_id: string;
  run_id: string;
}

export interface HistoryLine {
  what: string;
  at: string;
  owner: string;
  run: RunLink | null;
  reason: string;
  before: Figures | null;
  after: Figures | null;
  said: string | null;
}

export interface Plan {
  asked: number;
  change: number;
  unchanged: number;
  skipped: number;
  refused: number;
  unknown: number;
  partitions: { key: string; action: string; reason: string; before: Figures | null; after: Figures | null }[];
}

/** What went wrong, in words for a person. */
export interface Failure {
  title: string;
  message: string;
  status: number;
}

const base = () => new URL("backfill/", document.querySelector<HTMLBaseElement>("head > base")?.href ?? `${location.origin}/`);

/** Ask the server. Nothing is changed by GET; what changes carries a header that other sites can't send. */
export async function ask<T>(path: string, body?: unknown): Promise<T> {
  return JSON.parse(await text(path, body)) as T;
}

async function text(path: string, body?: unknown, signal?: AbortSignal): Promise<string> {
  const response = await fetch(new URL(path, base()), {
    method: body === undefined ? "GET" : "POST",
    headers: { Accept: "application/json", "X-Backfill": "page", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted === true) throw error;
    throw failure("Airflow doesn't answer", "The API server can't be reached. The page tries again.", 0);
  });
  const told = await response.text();
  if (response.ok) return told;
  throw failure(TITLES[response.status] ?? "That did not work", detail(told) ?? `The server answers ${response.status}.`, response.status);
}

const TITLES: Record<number, string> = {
  401: "You are not logged in any more",
  403: "You may not do that",
  404: "There is no such thing",
  409: "Refused",
  503: "The ledger can't be reached",
};

function failure(title: string, message: string, status: number): Failure {
  return { title, message, status };
}

/** What the server says went wrong; nothing where it says that in no words, as a proxy before it does. */
function detail(told: string): string | undefined {
  try {
    const { detail: found } = JSON.parse(told) as { detail?: unknown };
    return typeof found === "string" ? found : JSON.stringify(found);
  } catch {
    return undefined;
  }
}

export interface Answer<T> {
  told: T | undefined;
  failure: Failure | undefined;
  again: () => void;
}

/**
 * Ask, and keep the last answer while it is asked again; `every` so many seconds where that is given.
 * The same answer once more draws nothing anew.
 */
export function useAnswer<T>(path: string | undefined, every?: number): Answer<T> {
  const [state, setState] = useState<{ path: string | undefined; told?: T; failure?: Failure }>({ path });
  const drawn = useRef<string | undefined>(undefined);
  const [turn, setTurn] = useState(0);
  const busy = useRef(false);
  useEffect(() => {
    if (path === undefined) return undefined;
    const stop = new AbortController();
    busy.current = true;
    text(path, undefined, stop.signal)
      .then((said) => {
        if (drawn.current === path + said) return;
        setState({ path, told: JSON.parse(said) as T });
        drawn.current = path + said;
      })
      .catch((error: unknown) => {
        if (stop.signal.aborted) return;
        drawn.current = undefined;
        setState((before) => ({ ...(before.path === path ? before : { path }), failure: known(error) }));
      })
      .finally(() => {
        if (!stop.signal.aborted) busy.current = false;
      });
    return () => stop.abort();
  }, [path, turn]);
  useEffect(() => {
    if (every === undefined) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && !busy.current && setTurn((one) => one + 1), every * 1000);
    return () => clearInterval(timer);
  }, [every]);
  const again = useCallback(() => setTurn((one) => one + 1), []);
  const mine = state.path === path;
  return { told: mine ? state.told : undefined, failure: mine ? state.failure : undefined, again };
}

export function known(error: unknown): Failure {
  if (typeof error === "object" && error !== null && "title" in error) return error as Failure;
  return failure("That did not work", String(error), 0);
}

/** What was done, in words, with the runs that were started for it. */
export interface Done {
  words: string;
  runs: RunLink[];
}

/** Do it: by the form of a DAG, one run a span, or by the server at once. */
export async function carryOut(told: DatasetTold, verb: Verb, reason: string): Promise<Done> {
  if (verb.dag === undefined) {
    const path = `datasets/${encodeURIComponent(told.dataset)}/${verb.name.toLowerCase()}`;
    const { words } = await ask<{ words: string }>(path, { spans: verb.spans, reason });
    return { words, runs: [] };
  }
  const runs = [];
  for (const of of forms(told, verb)) {
    try {
      runs.push(await startRun(verb.dag, { ...of, reason, owner: told.user }));
    } catch (error) {
      if (runs.length === 0) throw error;
      return { words: `${runs.length} of ${forms(told, verb).length} runs were started; then: ${known(error).message}`, runs };
    }
  }
  return { words: `${runs.length === 1 ? "A run" : `${runs.length} runs`} of ${verb.dag} ${runs.length === 1 ? "was" : "were"} started`, runs };
}

/** What is filled into the form of a DAG, a run each: a span of time, or all keys that are none. */
export function forms(told: DatasetTold, { name, spans }: Pick<Verb, "name" | "spans">): object[] {
  const keys = spans.map(([first]) => first);
  if (told.grain === "key") return name === "Amend" ? keys.map((key) => ({ key })) : [{ keys }];
  return spans.map(([start, end]) => (name === "Amend" ? { date: start } : { start, end }));
}

/** Start a DAG by its form. Airflow's own API does it, and asks its own permissions. */
async function startRun(dag: string, conf: object): Promise<RunLink> {
  const { dag_run_id } = await ask<{ dag_run_id: string }>(`${airflow(dag)}/dagRuns`, { logical_date: null, conf });
  return { dag_id: dag, run_id: dag_run_id };
}

/** What has become of a run: its state while it goes on, `success` or `failed` when it has ended. */
export async function stateOf({ dag_id, run_id }: RunLink): Promise<string> {
  const { state } = await ask<{ state: string }>(`${airflow(dag_id)}/dagRuns/${encodeURIComponent(run_id)}`);
  return state;
}

const airflow = (dag: string) => `../api/v2/dags/${encodeURIComponent(dag)}`;

const NAP = 1500;
const LONGEST_PLAN = 10 * 60_000;
const ENDED_BADLY = ["failed", "upstream_failed", "skipped", "removed", "up_for_retry"];

/** Let a task plan what a run would do now, for what the spans name. It reads the source; nothing is written. */
export async function planned(told: DatasetTold, spans: readonly (readonly [string, string])[], stop: AbortSignal): Promise<Plan> {
  const [first, last] = [spans[0]?.[0], spans.at(-1)?.[1]];
  const of = told.dags.plan;
  if (of === null || first === undefined) throw failure("No plan", "No DAG of this dataset can only plan.", 0);
  const which = told.grain === "key" ? { keys: spans.map(([key]) => key) } : { start: first, end: last };
  const conf = { ...which, reason: "a plan, asked for on the page", owner: told.user, only_plan: true };
  const { run_id } = await startRun(of.dag_id, conf);
  const run = `${airflow(of.dag_id)}/dagRuns/${encodeURIComponent(run_id)}`;
  const task = `${run}/taskInstances/${encodeURIComponent(of.task_id)}`;
  const began = Date.now();
  for (;;) {
    const { state } = await ask<{ state: string | null }>(task);
    if (state === "success") break;
    if (ENDED_BADLY.includes(state ?? "")) {
      throw failure("It could not be planned", `The log of the run ${run_id} says why.`, 0);
    }
    if (Date.now() - began > LONGEST_PLAN) {
      throw failure("There is no plan yet", `The run ${run_id} has not come to it; its log will have it.`, 0);
    }
    await new Promise((resolve) => setTimeout(resolve, NAP));
    stop.throwIfAborted();
  }
  const { value } = await ask<{ value: unknown }>(`${task}/xcomEntries/return_value?stringify=false`);
  return summed((value as PlannedByTask[]).map(asPlanned), spans);
}

type PlannedByTask = Plan["partitions"][number] | { dt: string; action: string; reason: string; orders_before: number | null; amount_before: number | null; orders_after: number | null; amount_after: number | null };

/** The runner's table has its two sums where a dataset has figures. */
function asPlanned(one: PlannedByTask): Plan["partitions"][number] {
  if ("key" in one) return one;
  const sums = (orders: number | null, amount: number | null) => (orders === null ? null : { orders, amount });
  return {
    key: one.dt,
    action: one.action,
    reason: one.reason,
    before: sums(one.orders_before, one.amount_before),
    after: sums(one.orders_after, one.amount_after),
  };
}

/** Keep of a plan what was asked for, and count it. */
export function summed(all: Plan["partitions"], spans: readonly (readonly [string, string])[]): Plan {
  const partitions = all.filter(({ key }) => spans.some(([first, last]) => first <= key && key <= last));
  const count = (...actions: string[]) => partitions.filter(({ action }) => actions.includes(action)).length;
  return {
    asked: partitions.length,
    change: count("change"),
    unchanged: count("unchanged"),
    skipped: count("skipped"),
    refused: count("refused", "failed"),
    unknown: count("not known"),
    partitions,
  };
}
