// Small things that several places show.

import { Alert, Badge, Box, EmptyState, Flex, HStack, Link, Spinner, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { Link as RouterLink, type To as ToPlace } from "react-router-dom";

import type { Failure, Figures } from "./server.ts";
import { ink, LOOKS, STATES, type State } from "./states.ts";
import { ago, figure, time } from "./texts.ts";
import { useZone } from "./zone.ts";

/** The colours of all states, as CSS variables that follow the theme. */
export const PALETTE = {
  ...Object.fromEntries(STATES.map((state) => [`--bf-${state}`, `colors.${LOOKS[state].light}`])),
  "--bf-range": "color-mix(in oklab, {colors.blue.500} 25%, transparent)",
  "--bf-line": "colors.blue.600",
  _dark: {
    ...Object.fromEntries(STATES.map((state) => [`--bf-${state}`, `colors.${LOOKS[state].dark}`])),
    "--bf-range": "color-mix(in oklab, {colors.blue.400} 35%, transparent)",
    "--bf-line": "colors.sky.400",
  },
};

export function Mark({ state, size = 12 }: { state: State; size?: number }) {
  const look = LOOKS[state];
  const path = look.path(0.5, 0.5, size - 1);
  return (
    <svg width={size} height={size} aria-hidden style={{ display: "inline-block", flex: "none" }}>
      {look.outline === true ? (
        <path d={path} fill="none" stroke={ink(state)} />
      ) : (
        <path d={path} fill={ink(state)} fillRule="evenodd" />
      )}
    </svg>
  );
}

export function StateName({ state }: { state: State }) {
  return (
    <HStack as="span" gap={1.5} display="inline-flex">
      <Mark state={state} />
      <span>{LOOKS[state].word}</span>
    </HStack>
  );
}

/** An instant as Airflow shows one; how long ago it was as its title. */
export function Time({ at }: { at: string }) {
  const zone = useZone();
  return (
    <time dateTime={at} title={`${ago(at, Date.now())}; ${time(at, "UTC")} UTC`} style={{ whiteSpace: "nowrap" }}>
      {time(at, zone)}
    </time>
  );
}

/** A link to another place of Airflow's page. */
export function To({ to, children }: { to: ToPlace; children: ReactNode }) {
  return (
    <Link asChild color="fg.info" wordBreak="break-word">
      <RouterLink to={to}>{children}</RouterLink>
    </Link>
  );
}

export function Run({ dag, run }: { dag: string; run: string }) {
  return <To to={`/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`}>{run}</To>;
}

export function Waiting({ what }: { what: string }) {
  return (
    <Flex align="center" gap={3} p={6} color="fg.muted" role="status">
      <Spinner size="sm" /> {what}
    </Flex>
  );
}

export function Trouble({ failure }: { failure: Failure }) {
  return (
    <Alert.Root status="error" alignItems="flex-start" mb={3}>
      <Alert.Indicator />
      <Alert.Content>
        <Alert.Title>{failure.title}</Alert.Title>
        <Alert.Description>{failure.message}</Alert.Description>
      </Alert.Content>
    </Alert.Root>
  );
}

export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <EmptyState.Root size="md">
      <EmptyState.Content>
        <EmptyState.Indicator>
          <Flex gap={1}>
            {STATES.slice(0, 4).map((state) => (
              <Mark key={state} state={state} size={22} />
            ))}
          </Flex>
        </EmptyState.Indicator>
        <EmptyState.Title>{title}</EmptyState.Title>
        <Box color="fg.muted" maxW="xl" textAlign="start" fontSize="sm" spaceY={3}>
          {children}
        </Box>
      </EmptyState.Content>
    </EmptyState.Root>
  );
}

export function Program({ children }: { children: string }) {
  return (
    <Box as="pre" bg="bg.muted" color="fg" p={3} borderRadius="md" fontSize="xs" overflowX="auto" tabIndex={0}>
      {children}
    </Box>
  );
}

export function Line({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Flex gap={3} py={1} borderBottomWidth="1px" borderColor="border.muted" align="baseline">
      <Text as="dt" color="fg.muted" w="8.5rem" flex="none" fontSize="sm">
        {label}
      </Text>
      <Box as="dd" flex="1" minW={0} fontSize="sm" wordBreak="break-word">
        {children}
      </Box>
    </Flex>
  );
}

export function Count({ palette, children }: { palette: string; children: ReactNode }) {
  return (
    <Badge colorPalette={palette} variant="subtle" fontVariantNumeric="tabular-nums">
      {children}
    </Badge>
  );
}

/** What became of the figures, those that stayed as they were left out. */
export function Moves({ before, after }: { before: Figures | null; after: Figures }) {
  const moved = Object.keys(after).filter((name) => before?.[name] !== after[name]);
  return (
    <Box fontVariantNumeric="tabular-nums">
      {moved.map((name) => (
        <Text key={name} whiteSpace="nowrap">
          {name} {before !== null && `${figure(before[name])} → `}
          {figure(after[name])}
        </Text>
      ))}
      {moved.length === 0 && "the figures stay"}
    </Box>
  );
}
