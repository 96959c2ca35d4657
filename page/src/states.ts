// What a partition can be: for each state a letter, a word, a shape and a colour. The shapes alone tell them apart.

export const STATES = ["missing", "published", "held", "sealed", "corrected", "failed", "drifted", "late"] as const;

export type State = (typeof STATES)[number];

interface Look {
  /** Short, for a legend and a list. */
  word: string;
  /** What it means, as a sentence. */
  meaning: string;
  /** Tokens of the theme, on a light and on a dark ground; each has a contrast of at least 3 to it. */
  light: string;
  dark: string;
  /** An SVG path in a square of `s` whose corner is at x, y. */
  path: (x: number, y: number, s: number) => string;
  /** Drawn by its outline. */
  outline?: boolean;
}

const square = (x: number, y: number, s: number) => `M${x} ${y}h${s}v${s}h${-s}z`;

const disc = (x: number, y: number, s: number) => {
  const r = s / 2;
  return `M${x} ${y + r}a${r} ${r} 0 1 0 ${s} 0a${r} ${r} 0 1 0 ${-s} 0z`;
};

/** A plus, wound so that it is cut out of what it stands on. */
const plus = (x: number, y: number, s: number) => {
  const a = s * 0.2;
  const b = s * 0.2;
  const c = (s - b) / 2;
  const arm = c - a;
  return `M${x + c} ${y + a}h${b}v${arm}h${arm}v${b}h${-arm}v${arm}h${-b}v${-arm}h${-arm}v${-b}h${arm}z`;
};

const cross = (x: number, y: number, s: number) => {
  const w = s * 0.3;
  const h = s / 2 - w;
  return (
    `M${x} ${y + w}l${w} ${-w}l${h} ${h}l${h} ${-h}l${w} ${w}l${-h} ${h}l${h} ${h}l${-w} ${w}` +
    `l${-h} ${-h}l${-h} ${h}l${-w} ${-w}l${h} ${-h}z`
  );
};

const diamond = (x: number, y: number, s: number) => {
  const r = s / 2;
  return `M${x + r} ${y}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`;
};

/** A triangle that stands on its side: somebody is at it. */
const play = (x: number, y: number, s: number) => `M${x + s * 0.1} ${y}l${s * 0.85} ${s / 2}l${-s * 0.85} ${s / 2}z`;

/** The lower half of a disc, with a bar above: something is to be filled in. */
const half = (x: number, y: number, s: number) => {
  const r = s / 2;
  return `M${x} ${y + r}a${r} ${r} 0 1 0 ${s} 0zM${x} ${y + r * 0.3}h${s}v${r * 0.35}h${-s}z`;
};

export const LOOKS: Record<State, Look> = {
  missing: {
    word: "Missing",
    meaning: "nothing was published",
    light: "gray.500",
    dark: "gray.500",
    path: (x, y, s) => square(x + s * 0.2, y + s * 0.2, s * 0.6),
    outline: true,
  },
  published: { word: "Published", meaning: "readers have it", light: "green.600", dark: "green.500", path: square },
  held: { word: "Held", meaning: "somebody has reserved it", light: "blue.600", dark: "sky.400", path: play },
  sealed: { word: "Sealed", meaning: "declared as sent: no run changes it", light: "brand.500", dark: "brand.400", path: disc },
  corrected: {
    word: "Sealed and corrected",
    meaning: "declared as sent, with a correction beside it",
    light: "purple.700",
    dark: "purple.300",
    path: (x, y, s) => disc(x, y, s) + plus(x, y, s),
  },
  failed: { word: "Failed last time", meaning: "the last try was refused or failed", light: "red.600", dark: "red.400", path: cross },
  drifted: {
    word: "Drifted",
    meaning: "the table holds what nobody of ours published",
    light: "orange.700",
    dark: "orange.400",
    path: diamond,
  },
  late: { word: "Late", meaning: "sealed, and its source has moved on", light: "orange.700", dark: "orange.400", path: half },
};

/** The CSS variable that holds a state's colour. */
export const ink = (state: State) => `var(--bf-${state})`;
