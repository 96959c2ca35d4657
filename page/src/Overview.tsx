// All datasets: first what needs a person.

import { Box, Button, Checkbox, Flex, Heading, HStack, Input, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { useSearchParams } from "react-router-dom";

import { needs, sorted, weight } from "./needs.ts";
import { Count, Empty, Program, Time, To } from "./parts.tsx";
import type { Overview } from "./server.ts";

const PAGE = 50;

export function OverviewPage({ datasets, dagId }: { datasets: readonly Overview[]; dagId: string | undefined }) {
  const [params, setParams] = useSearchParams();
  const wanted = (params.get("filter") ?? "").toLowerCase();
  const needy = params.get("needs") === "person";
  const page = Math.max(1, Number(params.get("page")) || 1);
  const set = (name: string, value: string) =>
    setParams(
      (before) => {
        before.delete("page");
        if (value) before.set(name, value);
        else before.delete(name);
        return before;
      },
      { replace: true },
    );
  const [order] = useState(() => new Map(sorted(datasets).map((one, at) => [one.dataset, at])));
  const found = sorted(datasets)
    .filter((one) => one.dataset.toLowerCase().includes(wanted) && (!needy || weight(one) > 0))
    // What was drawn keeps its place while it is looked at, also where polling changes what it needs.
    .sort((a, b) => (order.get(a.dataset) ?? 0) - (order.get(b.dataset) ?? 0));
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  const shown = found.slice((Math.min(page, pages) - 1) * PAGE, Math.min(page, pages) * PAGE);
  const count = datasets.filter((one) => weight(one) > 0).length;

  return (
    <Box>
      <Flex wrap="wrap" gap={3} align="center" mb={3}>
        {dagId === undefined && (
          <Heading as="h1" size="lg" mr="auto">
            Partitions
          </Heading>
        )}
        <Text color="fg.muted" fontSize="sm" role="status">
          {found.length === datasets.length ? "" : `${found.length} of `}
          {datasets.length} datasets; {count === 0 ? "none needs" : `${count} need${count === 1 ? "s" : ""}`} a person
        </Text>
        <Input
          aria-label="Filter by name"
          placeholder="Filter by name"
          size="sm"
          w={{ base: "100%", sm: "16rem" }}
          defaultValue={params.get("filter") ?? ""}
          onChange={(event) => set("filter", event.target.value)}
        />
        <Checkbox.Root checked={needy} onCheckedChange={({ checked }) => set("needs", checked === true ? "person" : "")}>
          <Checkbox.HiddenInput />
          <Checkbox.Control />
          <Checkbox.Label>Needs a person</Checkbox.Label>
        </Checkbox.Root>
      </Flex>
      <Box overflowX="auto" tabIndex={0} role="region" aria-label="Datasets">
        <Table.Root size="sm" variant="line" interactive>
          <Table.Header>
            <Table.Row>
              {["Dataset", "Needs a person", "Newest", "Sealed up to", "Published", "Held", "Last checked", "Last change"].map(
                (text) => (
                  <Table.ColumnHeader key={text} whiteSpace="nowrap" textAlign={text === "Published" ? "end" : undefined}>
                    {text}
                  </Table.ColumnHeader>
                ),
              )}
            </Table.Row>
          </Table.Header>
          <Table.Body fontVariantNumeric="tabular-nums">
            {shown.map((one) => (
              <Table.Row key={one.dataset}>
                <Table.Cell fontWeight="medium" minW="12rem">
                  <To to={{ search: `?dataset=${encodeURIComponent(one.dataset)}` }}>{one.dataset}</To>
                </Table.Cell>
                <Table.Cell>
                  <HStack gap={1} wrap="wrap">
                    {needs(one).map(({ palette, text }) => (
                      <Count key={text} palette={palette}>
                        {text}
                      </Count>
                    ))}
                  </HStack>
                </Table.Cell>
                <Table.Cell whiteSpace="nowrap">{one.newest ?? "–"}</Table.Cell>
                <Table.Cell whiteSpace="nowrap">{one.sealed_up_to ?? "–"}</Table.Cell>
                <Table.Cell textAlign="end">{one.published.toLocaleString("en-US")}</Table.Cell>
                <Table.Cell>{one.held > 0 ? <Count palette="blue">{one.held} held</Count> : "–"}</Table.Cell>
                <Table.Cell>{one.checked_at === null ? "not yet" : <Time at={one.checked_at} />}</Table.Cell>
                <Table.Cell>
                  {one.changed === null ? (
                    "–"
                  ) : (
                    <>
                      <Time at={one.changed.at} /> by {one.changed.by}
                    </>
                  )}
                </Table.Cell>
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      </Box>
      {found.length === 0 && (
        <Text p={4} color="fg.muted">
          No dataset has that in its name{needy ? ", or none of them needs a person" : ""}.
        </Text>
      )}
      {pages > 1 && (
        <HStack mt={3} justify="end" as="nav" aria-label="Pages of datasets">
          <Button size="sm" variant="outline" disabled={page <= 1} onClick={() => set("page", String(page - 1))}>
            Previous
          </Button>
          <Text fontSize="sm">
            {Math.min(page, pages)} of {pages}
          </Text>
          <Button size="sm" variant="outline" disabled={page >= pages} onClick={() => set("page", String(page + 1))}>
            Next
          </Button>
        </HStack>
      )}
    </Box>
  );
}

export function NoDataset({ dagId }: { dagId: string | undefined }) {
  return (
    <Empty title={dagId === undefined ? "No dataset yet" : "This DAG writes no dataset"}>
      <p>
        A dataset is a table of yours that is published partition by partition. Say once what it is, and let a DAG write it
        under guard; its past is shown here then: what each day holds, who holds it, and what was said about it.
      </p>
      <Program>{`from backfill_airflow.factory import dataset_dags
from backfill_core.dataset import Dataset, SqlTable

orders_daily = Dataset(
    "shop.orders_daily",
    SqlTable("shop", "orders_daily", day="dt"),
    measures={"orders": "sum(orders)"},
)
dataset_dags(orders_daily, select="orders_daily.sql")`}</Program>
      {dagId !== undefined && (
        <p>
          <To to="/plugin/partitions">All datasets</To>
        </p>
      )}
    </Empty>
  );
}
