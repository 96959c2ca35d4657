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
  failed: number;
  late: number | null;
  drifted: number;
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
  holders: Record<string, { by: string; run: string | null }>;
  corrections: { key: string; at: string; right: Figures }[];
  dags: Dags;
  /** What this user may do: everything that changes, or nothing, and then why. */
  may: boolean;
  why_not: string | null;
}

/** The DAGs that write the dataset, by what they are for; null where there is none. */
export interface Dags {
  daily: string | null;
  range: string | null;
  seal: string | null;
  unseal: string | null;
  amend: string | null;
}

export interface One {
  key: string;
  figures: Figures | null;
  published_at: string | null;
  owner: string | null;
  reason: string | null;
  run: RunLink | null;
  sealed: boolean;
  holders: { by: string; claim: string; since: string | null; run: RunLink | null }[];
  failure: string | null;
  failed_at: string | null;
  drift: string | null;
  checked_at: string | null;
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
  useEffect(() => {
    if (path === undefined) return undefined;
    const stop = new AbortController();
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
      });
    return () => stop.abort();
  }, [path, turn]);
  useEffect(() => {
    if (every === undefined) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && setTurn((one) => one + 1), every * 1000);
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
export async function carryOut(dataset: string, verb: Verb, reason: string): Promise<Done> {
  const name = verb.name.toLowerCase();
  if (verb.dag === undefined) {
    const path = `datasets/${encodeURIComponent(dataset)}/${name}`;
    const { words } = await ask<{ words: string }>(path, { spans: verb.spans, reason });
    return { words, runs: [] };
  }
  const { words, runs } = await ask<Done>(`datasets/${encodeURIComponent(dataset)}/run`, { what: name, spans: verb.spans, reason });
  return { words, runs };
}
