// A range: what is in it, narrowed if wanted, its plan, what can be done with it, and all of it as a table.

import { Box, Flex, HStack, SegmentGroup, Text } from "@chakra-ui/react";
import { useState } from "react";

import { Actions } from "./Actions.tsx";
import { counted } from "./axis.ts";
import type { Selection } from "./Calendar.tsx";
import { Choice } from "./Choice.tsx";
import { Listed } from "./Listed.tsx";
import { PlanButton } from "./PlanButton.tsx";
import { StateName } from "./parts.tsx";
import { STATES } from "./states.ts";
import { NARROWED, type Narrowing, type View } from "./view.ts";

interface Props {
  view: View;
  first: number;
  last: number;
  onSelect: (selection: Selection) => void;
  onChanged: () => void;
}

export function RangePanel({ view, first, last, onSelect, onChanged }: Props) {
  const [narrowing, setNarrowing] = useState<Narrowing>("All");
  const places = view.places(first, last, NARROWED[narrowing]);
  const grain = view.axis.grain;
  return (
    <Box spaceY={4}>
      <Choice view={view} first={first} last={last} onSelect={onSelect} />
      <Flex gap={3} wrap="wrap" fontSize="sm">
        {STATES.map((state) => {
          const count = view.places(first, last, [state]).length;
          return (
            count > 0 && (
              <HStack key={state} gap={1}>
                <StateName state={state} /> <strong>{count.toLocaleString("en-US")}</strong>
              </HStack>
            )
          );
        })}
      </Flex>
      <HStack gap={2} wrap="wrap">
        <SegmentGroup.Root
          size="xs"
          value={narrowing}
          onValueChange={({ value }) => setNarrowing((value ?? "All") as Narrowing)}
          aria-label="Narrow the range to"
        >
          <SegmentGroup.Indicator />
          {(Object.keys(NARROWED) as Narrowing[]).map((one) => (
            <SegmentGroup.Item key={one} value={one}>
              <SegmentGroup.ItemText>{one}</SegmentGroup.ItemText>
              <SegmentGroup.ItemHiddenInput />
            </SegmentGroup.Item>
          ))}
        </SegmentGroup.Root>
        <Text fontSize="sm" color="fg.muted" role="status">
          {narrowing === "All" ? "" : counted(places.length, grain)}
        </Text>
      </HStack>
      <Actions view={view} places={places} onChanged={onChanged} />
      <PlanButton key={`${first}/${last}/${narrowing}`} view={view} places={places} />
      <Listed key={`${first}/${last}`} label="The range as a table" view={view} places={places} onSelect={onSelect} />
    </Box>
  );
}
