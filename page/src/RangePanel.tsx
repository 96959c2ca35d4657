// A range: what is in it, narrowed if wanted, its plan, what can be done with it, and all of it as a table.

import { Box, Button, Flex, HStack, SegmentGroup, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { Actions } from "./Actions.tsx";
import { counted } from "./axis.ts";
import type { Selection } from "./Calendar.tsx";
import { Choice } from "./Choice.tsx";
import { PlanButton } from "./PlanButton.tsx";
import { StateName, Time } from "./parts.tsx";
import { STATES } from "./states.ts";
import { figure } from "./texts.ts";
import { NARROWED, type Narrowing, type View } from "./view.ts";

const PAGE = 31;

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
      <Listed key={`${first}/${last}`} view={view} places={places} onSelect={onSelect} />
    </Box>
  );
}

/** The range as a table, for reading and for screen readers; a page at a time. */
function Listed({ view, places, onSelect }: { view: View; places: number[]; onSelect: (one: Selection) => void }) {
  const [page, setPage] = useState(0);
  const { axis, told } = view;
  const pages = Math.ceil(places.length / PAGE);
  const shown = places.slice(page * PAGE, (page + 1) * PAGE);
  if (places.length === 0) return <Text color="fg.muted">There is no such partition in the range.</Text>;
  return (
    <Box>
      <Box overflowX="auto" tabIndex={0} role="region" aria-label="The range as a table">
        <Table.Root size="sm" fontVariantNumeric="tabular-nums">
          <Table.Header>
            <Table.Row>
              <Table.ColumnHeader>Partition</Table.ColumnHeader>
              <Table.ColumnHeader>State</Table.ColumnHeader>
              {told.measures.map((measure) => (
                <Table.ColumnHeader key={measure} textAlign="end">
                  {measure}
                </Table.ColumnHeader>
              ))}
              <Table.ColumnHeader>Published</Table.ColumnHeader>
              <Table.ColumnHeader>By</Table.ColumnHeader>
            </Table.Row>
          </Table.Header>
          <Table.Body>
            {shown.map((place) => {
              const at = told.published_at[place];
              return (
                <Table.Row key={place}>
                  <Table.Cell whiteSpace="nowrap">
                    <Button variant="plain" size="xs" px={0} color="fg.info" onClick={() => onSelect({ anchor: place, cursor: place })}>
                      {axis.key(place)}
                    </Button>
                  </Table.Cell>
                  <Table.Cell whiteSpace="nowrap">
                    <StateName state={view.state(place)} />
                  </Table.Cell>
                  {told.measures.map((measure) => (
                    <Table.Cell key={measure} textAlign="end">
                      {figure(told.figures[measure]?.[place])}
                    </Table.Cell>
                  ))}
                  <Table.Cell>{at ? <Time at={at} /> : "–"}</Table.Cell>
                  <Table.Cell>{told.by[told.writers[place] ?? -1] ?? "–"}</Table.Cell>
                </Table.Row>
              );
            })}
          </Table.Body>
        </Table.Root>
      </Box>
      {pages > 1 && (
        <HStack mt={2} justify="end">
          <Button size="xs" variant="outline" disabled={page === 0} onClick={() => setPage(page - 1)}>
            Earlier
          </Button>
          <Text fontSize="xs">
            {page + 1} of {pages.toLocaleString("en-US")}
          </Text>
          <Button size="xs" variant="outline" disabled={page + 1 >= pages} onClick={() => setPage(page + 1)}>
            Later
          </Button>
        </HStack>
      )}
    </Box>
  );
}
