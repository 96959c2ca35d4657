// Partitions as a table, for reading and for screen readers; a page at a time.

import { Box, Button, HStack, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import type { Selection } from "./Calendar.tsx";
import { StateName, Time } from "./parts.tsx";
import { figure } from "./texts.ts";
import type { View } from "./view.ts";

const PAGE = 31;

interface Props {
  /** What the table is called for who doesn't see it. */
  label: string;
  view: View;
  places: readonly number[];
  onSelect: (selection: Selection) => void;
}

export function Listed({ label, view, places, onSelect }: Props) {
  const [page, setPage] = useState(0);
  const { axis, told } = view;
  const pages = Math.ceil(places.length / PAGE);
  const shown = places.slice(page * PAGE, (page + 1) * PAGE);
  if (places.length === 0) return <Text color="fg.muted">There is no such partition in the range.</Text>;
  return (
    <Box>
      <Box overflowX="auto" tabIndex={0} role="region" aria-label={label}>
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
