// What a run would do now. It reads the source, so it is asked for by a button and never on its own.

import { Badge, Box, Button, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";

import { counted } from "./axis.ts";
import { Moves, Trouble } from "./parts.tsx";
import { known, planned, type Failure, type Plan } from "./server.ts";
import { spansIn } from "./verbs.ts";
import type { View } from "./view.ts";

const PALETTES: Record<string, string> = { change: "green", unchanged: "gray", skipped: "orange", refused: "red", failed: "red" };

export function PlanButton({ view, places }: { view: View; places: readonly number[] }) {
  const { axis, told } = view;
  const [plan, setPlan] = useState<Plan>();
  const [failure, setFailure] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const gone = useRef(new AbortController());
  useEffect(() => {
    gone.current = new AbortController();
    return () => gone.current.abort();
  }, []);
  const not = whyNot(view, places);
  const look = async () => {
    const { signal } = gone.current;
    setBusy(true);
    setFailure(undefined);
    try {
      setPlan(await planned(told, spansIn(axis, places).map(([first, last]) => [axis.key(first), axis.key(last)] as const), signal));
    } catch (error) {
      if (!signal.aborted) setFailure(known(error));
    }
    if (!signal.aborted) setBusy(false);
  };
  return (
    <Box aria-live="polite">
      <Button
        size="sm"
        variant="outline"
        loading={busy}
        loadingText="A task reads the source"
        aria-disabled={not !== undefined}
        title={not}
        opacity={not === undefined ? undefined : 0.55}
        onClick={() => not === undefined && void look()}
      >
        What would a run do now?
      </Button>
      {failure && (
        <Box mt={2}>
          <Trouble failure={failure} />
        </Box>
      )}
      {plan && <Shown plan={plan} view={view} />}
    </Box>
  );
}

/** Why it can't be planned; undefined where it can. A task plans, so it takes who may start one. */
function whyNot({ told }: View, places: readonly number[]): string | undefined {
  if (told.why_not !== null) return told.why_not;
  if (places.length === 0) return "Nothing is chosen";
  if (told.dags.plan === null) return "No DAG with a form that can only plan writes it";
  return told.paused.includes(told.dags.plan.dag_id) ? `The DAG ${told.dags.plan.dag_id} is paused` : undefined;
}

function Shown({ plan, view }: { plan: Plan; view: View }) {
  const counts = [
    ["change", plan.change],
    ["unchanged", plan.unchanged],
    ["skipped", plan.skipped],
    ["refused", plan.refused],
    ["not known", plan.unknown],
  ] as const;
  return (
    <Box mt={3} as="section" aria-label="Plan">
      <HStack wrap="wrap" gap={1.5} mb={1}>
        <Heading as="h3" size="sm">
          Of {counted(plan.asked, view.axis.grain)}
        </Heading>
        {counts.map(
          ([word, count]) =>
            count > 0 && (
              <Badge key={word} colorPalette={PALETTES[word] ?? "gray"}>
                {count.toLocaleString("en-US")} {word}
              </Badge>
            ),
        )}
      </HStack>
      <Box overflow="auto" maxH="22rem" tabIndex={0} role="region" aria-label="The plan as a table">
        <Table.Root size="sm" fontVariantNumeric="tabular-nums">
          <Table.Header>
            <Table.Row>
              {["Partition", "What", "Why", "From → to"].map((text) => (
                <Table.ColumnHeader key={text}>{text}</Table.ColumnHeader>
              ))}
            </Table.Row>
          </Table.Header>
          <Table.Body>
            {plan.partitions.slice(0, 400).map((one) => (
              <Table.Row key={one.key}>
                <Table.Cell whiteSpace="nowrap">{one.key}</Table.Cell>
                <Table.Cell>
                  <Badge colorPalette={PALETTES[one.action] ?? "gray"}>{one.action}</Badge>
                </Table.Cell>
                <Table.Cell>{one.reason}</Table.Cell>
                <Table.Cell>
                  {one.after === null ? "–" : <Moves before={one.before} after={one.after} />}
                </Table.Cell>
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      </Box>
      {plan.partitions.length > 400 && <Text fontSize="sm">The first 400 are shown.</Text>}
    </Box>
  );
}
