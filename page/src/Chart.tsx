// A measure over the partitions in order: a line, broken where nothing is, with corrections as marks.

import { Box, chakra, Flex, Text } from "@chakra-ui/react";
import { useMemo } from "react";

import type { Axis } from "./axis.ts";
import { across, HEIGHT, line, TOP, WIDTH } from "./line.ts";
import { compact } from "./texts.ts";

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
  const { path, lowest, highest } = useMemo(
    () => line(values, corrections.map(({ right }) => right)),
    [values, corrections],
  );
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
