// A measure over the partitions in order: a line, broken where nothing is, with corrections as marks.

import { Box, chakra, Flex, Text } from "@chakra-ui/react";
import { useMemo } from "react";

import type { Axis } from "./axis.ts";
import { compact } from "./texts.ts";

const HEIGHT = 96;
const WIDTH = 1000;
const TOP = 6;

interface Props {
  axis: Axis;
  measure: string;
  /** The measure at each place, undefined where there is none. */
  values: readonly (number | undefined)[];
  /** What was corrected: what is right instead of what was sent. */
  corrections: readonly { place: number; right: number | undefined }[];
  cursor: number;
  onCursor: (place: number) => void;
}

export function Chart({ axis, measure, values, corrections, cursor, onCursor }: Props) {
  const { path, lowest, highest } = useMemo(() => line(values), [values]);
  const x = (place: number) => across(place, values.length);
  const y = (value: number) => TOP + (HEIGHT - 2 * TOP) * (1 - (value - lowest) / (highest - lowest || 1));
  const last = axis.length - 1;
  if (path === "") return null;
  return (
    <Box position="relative" pl="30px">
      <Flex justify="space-between" fontSize="xs" color="fg.muted">
        <Text>
          {measure}: {compact(lowest)} – {compact(highest)}
        </Text>
        {corrections.length > 0 && (
          <Flex align="center" gap={1}>
            <svg width="9" height="9" aria-hidden>
              <path d="M4.5 0.5L8.5 8.5H0.5z" fill="none" stroke="var(--bf-corrected)" strokeWidth="1.5" />
            </svg>
            what is right, beside what was sent
          </Flex>
        )}
      </Flex>
      <Box position="relative">
        <chakra.svg
          role="img"
          aria-label={`${measure} from ${axis.key(0)} to ${axis.key(last)}: ${compact(lowest)} to ${compact(highest)}, ${corrections.length} corrected`}
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          display="block"
          w="100%"
          h={`${HEIGHT}px`}
          cursor="pointer"
          onClick={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            onCursor(Math.max(0, Math.min(last, Math.round(((event.clientX - box.left) / box.width) * last))));
          }}
        >
          <chakra.path d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} stroke="border.emphasized" vectorEffect="non-scaling-stroke" />
          <path
            d={`M${x(cursor)} 0V${HEIGHT}`}
            stroke="currentColor"
            strokeDasharray="2 2"
            vectorEffect="non-scaling-stroke"
          />
          <chakra.path
            d={path}
            fill="none"
            stroke="var(--bf-line)"
            strokeWidth="1.5"
            strokeLinejoin="round"
            vectorEffect="non-scaling-stroke"
          />
        </chakra.svg>
        {corrections.map(
          ({ place, right }) =>
            right !== undefined && (
              <chakra.svg
                key={place}
                aria-hidden
                viewBox="0 0 9 9"
                position="absolute"
                left={`calc(${(x(place) / WIDTH) * 100}% - 4.5px)`}
                top={`${Math.max(0, Math.min(HEIGHT, y(right))) - 4.5}px`}
                boxSize="9px"
                pointerEvents="none"
              >
                <chakra.path d="M4.5 0.5L8.5 8.5H0.5z" fill="bg" stroke="var(--bf-corrected)" strokeWidth="1.5" />
              </chakra.svg>
            ),
        )}
      </Box>
      <Flex justify="space-between" fontSize="xs" color="fg.muted" fontVariantNumeric="tabular-nums">
        <span>{axis.key(0)}</span>
        <span>{axis.key(last)}</span>
      </Flex>
    </Box>
  );
}

const across = (place: number, length: number) => (length < 2 ? WIDTH / 2 : (place / (length - 1)) * WIDTH);

/** The line, at most two points a pixel: of what falls on one, the lowest and the highest. */
export function line(values: readonly (number | undefined)[]): { path: string; lowest: number; highest: number } {
  let lowest = Infinity;
  let highest = -Infinity;
  for (const value of values) {
    if (value === undefined) continue;
    lowest = Math.min(lowest, value);
    highest = Math.max(highest, value);
  }
  if (lowest > highest) return { path: "", lowest: 0, highest: 0 };
  // From nothing upwards, unless all of it is far from nothing.
  if (lowest > 0 && lowest < highest / 2) lowest = 0;
  const y = (value: number) =>
    (TOP + (HEIGHT - 2 * TOP) * (highest === lowest ? 0.5 : 1 - (value - lowest) / (highest - lowest))).toFixed(1);
  const each = Math.max(1, Math.ceil(values.length / WIDTH));
  let path = "";
  let broken = true;
  for (let start = 0; start < values.length; start += each) {
    const seen = values.slice(start, start + each).filter((value) => value !== undefined);
    if (seen.length === 0) {
      broken = true;
      continue;
    }
    const at = across(Math.min(values.length - 1, start), values.length).toFixed(1);
    const low = Math.min(...seen);
    const high = Math.max(...seen);
    path += `${broken ? "M" : "L"}${at} ${y(low)}`;
    // A point that stands alone is a short stroke.
    if (high !== low) path += `L${at} ${y(high)}`;
    else if (broken) path += "h0.1";
    broken = false;
  }
  return { path, lowest, highest };
}
