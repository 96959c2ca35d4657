// One dataset: its past as a calendar, a measure as a line over it, and what is chosen beside it.

import { Alert, Box, Button, Flex, Grid, Heading, HStack, NativeSelect, Text } from "@chakra-ui/react";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "react-router-dom";

import { rangeText } from "./axis.ts";
import { bounds, Calendar, type Selection } from "./Calendar.tsx";
import { Chart } from "./Chart.tsx";
import { Listed } from "./Listed.tsx";
import { Mark, To, Trouble, Waiting } from "./parts.tsx";
import { RangePanel } from "./RangePanel.tsx";
import { PartitionPanel } from "./PartitionPanel.tsx";
import { useAnswer, type DatasetTold } from "./server.ts";
import { LOOKS, STATES, type State } from "./states.ts";
import { useWatch } from "./watch.ts";
import { viewOf, type View } from "./view.ts";
import { useZone } from "./zone.ts";

export function DatasetPage({ name, dagId }: { name: string; dagId: string | undefined }) {
  const watch = useWatch();
  const { told, failure, again } = useAnswer<DatasetTold>(`datasets/${encodeURIComponent(name)}`, watch.every);
  const view = useMemo(() => told && viewOf(told), [told]);
  watch.look(told);
  if (view === undefined) return failure ? <Trouble failure={failure} /> : <Waiting what={`Reading ${name}`} />;
  return (
    <Box>
      {dagId === undefined && (
        <HStack fontSize="sm" mb={1} as="nav" aria-label="Breadcrumb">
          <To to={{ search: "" }}>Partitions</To>
          <Text color="fg.muted">/</Text>
          <Text>{name}</Text>
        </HStack>
      )}
      {failure && <Trouble failure={failure} />}
      {view.axis.length === 0 ? (
        <Text color="fg.muted">Nothing was written yet. The first run of its DAG draws the first partition here.</Text>
      ) : (
        <Drawn
          view={view}
          onChanged={() => {
            watch.begin();
            again();
          }}
        />
      )}
    </Box>
  );
}

function Drawn({ view, onChanged }: { view: View; onChanged: () => void }) {
  const { axis, told } = view;
  const zone = useZone();
  const [params, setParams] = useSearchParams();
  const panel = useRef<HTMLDivElement>(null);
  // Kept here, so that it follows the hand; the address follows it when the hand rests.
  const [chosen, setChosen] = useState({ from: params.get("from") ?? "", to: params.get("to") ?? "" });
  const selection = useMemo((): Selection => {
    const from = axis.place(chosen.from);
    const to = axis.place(chosen.to);
    return { anchor: from ?? to ?? axis.length - 1, cursor: to ?? from ?? axis.length - 1 };
  }, [axis, chosen]);
  const select = useCallback(
    ({ anchor, cursor }: Selection) => setChosen({ from: axis.key(anchor), to: axis.key(cursor) }),
    [axis],
  );
  // The router makes a new setter after each change of the address; the effect is about what is chosen alone.
  const address = useRef(setParams);
  address.current = setParams;
  useEffect(() => {
    if (chosen.from === "") return undefined;
    const timer = setTimeout(() => {
      address.current(
        (before) => {
          before.set("from", chosen.from);
          before.set("to", chosen.to);
          if (chosen.to === chosen.from) before.delete("to");
          return before;
        },
        { replace: true, preventScrollReset: true },
      );
    }, 250);
    return () => clearTimeout(timer);
  }, [chosen]);
  const all = useMemo(() => view.places(0, axis.length - 1, []), [view, axis]);
  const describe = useCallback((place: number) => view.describe(place, zone), [view, zone]);
  const settled = useDeferredValue(selection);
  const [first, last] = bounds(settled);
  const measure = told.measures.includes(params.get("measure") ?? "") ? params.get("measure") : told.measures[0];
  const values = useMemo(() => (measure ? view.values(measure) : []), [view, measure]);
  const corrections = useMemo(
    () =>
      told.corrections.flatMap(({ key, right }) => {
        const place = axis.place(key);
        const value = measure ? right[measure] : undefined;
        return place === undefined || value === undefined || value === null ? [] : [{ place, right: Number(value) }];
      }),
    [axis, told, measure],
  );
  const show = () => {
    panel.current?.scrollIntoView({ block: "start" });
    panel.current?.focus({ preventScroll: true });
  };
  const next = (state: State) => {
    for (let step = 1; step <= axis.length; step += 1) {
      const place = (selection.cursor - step + axis.length) % axis.length;
      if (view.state(place) === state) return select({ anchor: place, cursor: place });
    }
  };

  return (
    <>
      <Flex wrap="wrap" gap={2} align="center" mb={2}>
        <Heading as="h1" size="md" mr={2}>
          {told.dataset}
        </Heading>
        {STATES.filter((state) => view.counts[state] > 0).map((state) => (
          <Box
            as="button"
            key={state}
            title={`${LOOKS[state].meaning}; the one before the cursor`}
            onClick={() => next(state)}
            display="inline-flex"
            alignItems="center"
            gap={1.5}
            fontSize={{ base: "xs", md: "sm" }}
            px={{ base: 1.5, md: 2 }}
            py={{ base: 0.5, md: 1 }}
            borderWidth="1px"
            borderRadius="md"
            cursor="pointer"
            _hover={{ bg: "bg.muted" }}
          >
            <Mark state={state} />
            {LOOKS[state].word} <strong>{view.counts[state].toLocaleString("en-US")}</strong>
          </Box>
        ))}
      </Flex>
      {told.why_not !== null && (
        <Alert.Root status="info" size="sm" mb={2}>
          <Alert.Indicator />
          <Alert.Title>{told.why_not}</Alert.Title>
        </Alert.Root>
      )}
      <Grid templateColumns={{ base: "minmax(0, 1fr)", xl: "minmax(0, 1fr) 26rem" }} gap={5} alignItems="start">
        <Box minW={0}>
          {axis.grain !== "key" && told.measures.length > 0 && measure && (
            <Box mb={3}>
              <NativeSelect.Root size="xs" w="12rem" ml="30px" mb={1}>
                <NativeSelect.Field
                  aria-label="Measure"
                  value={measure}
                  onChange={(event) =>
                    setParams(
                      (before) => {
                        before.set("measure", event.target.value);
                        return before;
                      },
                      { replace: true },
                    )
                  }
                >
                  {told.measures.map((one) => (
                    <option key={one}>{one}</option>
                  ))}
                </NativeSelect.Field>
                <NativeSelect.Indicator />
              </NativeSelect.Root>
              <Chart
                axis={axis}
                measure={measure}
                values={values}
                corrections={corrections}
                cursor={selection.cursor}
                onCursor={(place) => select({ anchor: place, cursor: place })}
              />
            </Box>
          )}
          {axis.grain === "key" ? (
            <Listed label={`Partitions of ${told.dataset}`} view={view} places={all} onSelect={select} />
          ) : (
            <Calendar
              name={told.dataset}
              axis={axis}
              letters={view.letters}
              selection={selection}
              onSelect={select}
              onOpen={show}
              describe={describe}
            />
          )}
        </Box>
        <Box
          ref={panel}
          tabIndex={-1}
          as="section"
          aria-label="What is chosen"
          borderWidth="1px"
          borderRadius="md"
          p={4}
          position={{ xl: "sticky" }}
          top={2}
          maxH={{ xl: "calc(100vh - 5rem)" }}
          overflowY={{ xl: "auto" }}
        >
          {first === last ? (
            <PartitionPanel key={axis.key(first)} view={view} place={first} onSelect={select} onChanged={onChanged} />
          ) : (
            <RangePanel view={view} first={first} last={last} onSelect={select} onChanged={onChanged} />
          )}
        </Box>
      </Grid>
      <Flex
        hideFrom="xl"
        position="sticky"
        bottom={0}
        mx={{ base: -3, md: -4 }}
        mb={{ base: -3, md: -4 }}
        px={4}
        py={2}
        gap={3}
        align="center"
        bg="bg"
        borderTopWidth="1px"
        zIndex="docked"
        fontSize="sm"
      >
        <Mark state={view.state(last)} />
        <Text flex="1" minW={0} truncate aria-hidden>
          {first === last ? describe(last).join(", ") : rangeText(axis.key(first), axis.key(last))}
        </Text>
        <Button size="xs" onClick={show}>
          Details
        </Button>
      </Flex>
    </>
  );
}
