// How often the page looks again: every few seconds while a run holds something or this user has started something.

import { useRef, useState } from "react";

import type { DatasetTold } from "./server.ts";

const OFTEN = 2;
const SELDOM = 60;
/** A run that was started shows itself by holding something, but only once the scheduler has come to it. */
const PATIENCE = 90_000;

export function useWatch() {
  const [held, setHeld] = useState(false);
  const began = useRef(0);
  const [, render] = useState(0);
  return {
    every: held || Date.now() - began.current < PATIENCE ? OFTEN : SELDOM,
    begin: () => {
      began.current = Date.now();
      render((one) => one + 1);
    },
    look: (told: DatasetTold | undefined) => {
      const now = Object.values(told?.holders ?? {}).some(({ run }) => run !== null);
      if (now !== held) setHeld(now);
    },
  };
}
