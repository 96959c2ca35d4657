// Numbers and times as Airflow writes them, in the time zone that was chosen in Airflow.

/** A number in few characters: `9.3M`. */
export function compact(value: number): string {
  return value.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 });
}

/** An exact figure with its thousands parted; its digits stay as they are, however many. */
export function figure(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d+)(.*)$/.exec(String(value)) ?? [];
  return whole === "" ? String(value) : sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

/** The time zone that is chosen in Airflow, which keeps it in the browser. */
export function chosenZone(): string {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem("timezone") ?? "null");
    if (typeof kept === "string") return new Intl.DateTimeFormat("en", { timeZone: kept }).resolvedOptions().timeZone;
  } catch {
    // Nothing was kept, or no zone that this browser knows.
  }
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** An instant as Airflow shows it, `2026-02-01 04:05:06`. */
export function time(iso: string, zone: string): string {
  const instant = new Date(/[zZ]|[+-]\d\d:?\d\d$/.test(iso) ? iso : `${iso}Z`);
  return Number.isNaN(instant.getTime())
    ? iso
    : instant.toLocaleString("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
}

/** How long ago, in words. */
export function ago(iso: string, now: number): string {
  const seconds = Math.round((now - Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(iso) ? iso : `${iso}Z`)) / 1000);
  const steps = [
    [60, "second"],
    [60, "minute"],
    [24, "hour"],
    [365, "day"],
  ] as const;
  let left = Math.max(0, seconds);
  for (const [size, unit] of steps) {
    if (left < size) return `${left} ${unit}${left === 1 ? "" : "s"} ago`;
    left = Math.floor(left / size);
  }
  return `${left} year${left === 1 ? "" : "s"} ago`;
}
