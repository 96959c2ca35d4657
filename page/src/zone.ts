// The time zone that is chosen in Airflow.

import { useEffect, useState } from "react";

import { chosenZone } from "./texts.ts";

/** The chosen zone, also after it is changed in another part of the page. */
export function useZone(): string {
  const [zone, setZone] = useState(chosenZone);
  useEffect(() => {
    const look = () => setZone(chosenZone());
    for (const name of ["storage", "local-storage"]) window.addEventListener(name, look);
    return () => {
      for (const name of ["storage", "local-storage"]) window.removeEventListener(name, look);
    };
  }, []);
  return zone;
}
