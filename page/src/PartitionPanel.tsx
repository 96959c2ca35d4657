// One partition: what it holds, since when and by whom, its corrections and its history, and what a run would do now.

import { Box, Heading, HStack, Table, Text } from "@chakra-ui/react";
import { useMemo, useState, type ReactNode } from "react";

import { Actions } from "./Actions.tsx";
import type { Selection } from "./Calendar.tsx";
import { Line, Moves, Run, StateName, Time, Trouble, Waiting } from "./parts.tsx";
import { Choice } from "./Choice.tsx";
import { PlanButton } from "./PlanButton.tsx";
import { useAnswer, type Figures, type HistoryLine, type One } from "./server.ts";
import { figure } from "./texts.ts";
import type { View } from "./view.ts";

interface Props {
  view: View;
  place: number;
  onSelect: (selection: Selection) => void;
  onChanged: () => void;
}

export function PartitionPanel({ view, place, onSelect, onChanged }: Props) {
  const key = view.axis.key(place);
  const places = useMemo(() => [place], [place]);
  const [turn, setTurn] = useState(0);
  // Asked again whenever what the calendar knows of it has changed.
  const { holders, corrections, published_at } = view.told;
  const seen = [
    view.letters[place],
    published_at[place],
    holders[key]?.by,
    corrections.filter((one) => one.key === key).length,
    turn,
  ].join(" ");
  const { told, failure } = useAnswer<One>(
    `datasets/${encodeURIComponent(view.told.dataset)}/partitions/${encodeURIComponent(key)}?seen=${encodeURIComponent(seen)}`,
  );
  return (
    <Box spaceY={4}>
      <Choice view={view} first={place} last={place} onSelect={onSelect} />
      <StateName state={view.state(place)} />
      {failure && <Trouble failure={failure} />}
      {told === undefined && failure === undefined && <Waiting what="Reading its history" />}
      {told && <Facts one={told} />}
      <Actions
        view={view}
        places={places}
        onChanged={() => {
          setTurn((one) => one + 1);
          onChanged();
        }}
      />
      <PlanButton view={view} places={places} />
      {told && told.corrections.length > 0 && (
        <Section title="Corrections">
          {told.corrections.map((one) => (
            <Entry key={`${one.at}${one.reason}`} at={one.at} who={one.by} reason={one.reason}>
              <Difference before={one.before} after={one.after} labels={["Sent", "Right"]} />
            </Entry>
          ))}
        </Section>
      )}
      {told && (
        <Section title="History">
          {told.history.length === 0 && <Text color="fg.muted">Nothing has happened here yet.</Text>}
          {[...told.history].reverse().map((line, at) => (
            <History key={`${line.at}${at}`} line={line} />
          ))}
        </Section>
      )}
    </Box>
  );
}

function Facts({ one }: { one: One }) {
  return (
    <Box as="dl">
      {Object.entries(one.figures ?? {}).map(([name, value]) => (
        <Line key={name} label={name}>
          <Text as="span" fontVariantNumeric="tabular-nums" fontWeight="medium">
            {figure(value)}
          </Text>
        </Line>
      ))}
      {one.owner !== null && (
        <Line label="Published">
          {one.published_at !== null && <Time at={one.published_at} />} by {one.owner}
        </Line>
      )}
      {one.run !== null && (
        <Line label="Written by run">
          <Run dag={one.run.dag_id} run={one.run.run_id} />
        </Line>
      )}
      {one.reason && <Line label="Reason">{one.reason}</Line>}
      {one.holders.map((holder) => (
        <Line key={holder.claim} label="Held by">
          {holder.by}
          {holder.run !== null && (
            <>
              , run <Run dag={holder.run.dag_id} run={holder.run.run_id} />
            </>
          )}
        </Line>
      ))}
      {one.failure !== null && (
        <Line label="Failed last time">
          {one.failure}
          {one.failed_at !== null && (
            <Text color="fg.muted">
              <Time at={one.failed_at} />
            </Text>
          )}
        </Line>
      )}
      {one.drift !== null && <Line label="Drifted">{one.drift}</Line>}
      {one.checked_at !== null && (
        <Line label="Last checked">
          <Time at={one.checked_at} />
        </Line>
      )}
      {one.late !== null && <Line label="Late">{one.late}</Line>}
      {one.compared_at !== null && (
        <Line label="Source compared">
          <Time at={one.compared_at} />
        </Line>
      )}
    </Box>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Box as="section" aria-label={title}>
      <Heading as="h3" size="sm" mb={2}>
        {title}
      </Heading>
      <Box spaceY={3}>{children}</Box>
    </Box>
  );
}

function Entry(props: { at: string; who: string; reason: string; what?: string; children?: ReactNode }) {
  const { at, who, reason, what, children } = props;
  return (
    <Box borderLeftWidth="2px" borderColor="border.emphasized" pl={3} fontSize="sm">
      <HStack justify="space-between" gap={2} wrap="wrap">
        <Text fontWeight="semibold">{what ?? who}</Text>
        {at !== "" && (
          <Text color="fg.muted">
            <Time at={at} />
          </Text>
        )}
      </HStack>
      {what !== undefined && <Text>{who}</Text>}
      {reason && <Text fontStyle="italic">“{reason}”</Text>}
      {children}
    </Box>
  );
}

function History({ line }: { line: HistoryLine }) {
  return (
    <Entry at={line.at} what={line.what} who={line.owner} reason={line.reason}>
      {line.said !== null && <Text>{line.said}</Text>}
      {line.run !== null && (
        <Text>
          Run <Run dag={line.run.dag_id} run={line.run.run_id} />
        </Text>
      )}
      {line.after !== null && <Moves before={line.before} after={line.after} />}
    </Entry>
  );
}

function Difference(props: { before: Figures | null; after: Figures | null; labels: [string, string] }) {
  const { before, after, labels } = props;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  if (names.length === 0) return null;
  return (
    <Table.Root size="sm" variant="line" fontVariantNumeric="tabular-nums" mt={1}>
      <Table.Header>
        <Table.Row>
          <Table.ColumnHeader>Measure</Table.ColumnHeader>
          {labels.map((label) => (
            <Table.ColumnHeader key={label} textAlign="end">
              {label}
            </Table.ColumnHeader>
          ))}
        </Table.Row>
      </Table.Header>
      <Table.Body>
        {names.map((name) => (
          <Table.Row key={name}>
            <Table.Cell>{name}</Table.Cell>
            <Table.Cell textAlign="end">{figure(before?.[name])}</Table.Cell>
            <Table.Cell textAlign="end" fontWeight={before?.[name] === after?.[name] ? undefined : "semibold"}>
              {figure(after?.[name])}
            </Table.Cell>
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
  );
}
