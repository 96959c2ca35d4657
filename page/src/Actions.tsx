// What can be done with what is chosen. Each action says in words what will happen, and asks why.

import { Alert, Box, Button, chakra, CloseButton, Dialog, Field, Flex, Portal, Text, Textarea } from "@chakra-ui/react";
import { useEffect, useRef, useState } from "react";

import { Run, StateName, Trouble } from "./parts.tsx";
import { outcome } from "./outcome.ts";
import { carryOut, type DatasetTold, type Done, type Failure, known, type RunLink, stateOf } from "./server.ts";
import { offered, type Verb } from "./verbs.ts";
import type { View } from "./view.ts";

interface Props {
  view: View;
  places: readonly number[];
  onChanged: () => void;
}

export function Actions({ view, places, onChanged }: Props) {
  const [open, setOpen] = useState<Verb>();
  const [done, setDone] = useState<Done & { verb: Verb }>();
  const verbs = offered(view, places);
  return (
    <Box>
      <Flex gap={2} wrap="wrap" role="group" aria-label="Actions">
        {verbs.map((verb) => (
          <Button
            key={verb.name}
            size="sm"
            variant={verb.name === "Backfill" ? "solid" : "outline"}
            aria-disabled={verb.not !== undefined}
            title={verb.not}
            opacity={verb.not === undefined ? undefined : 0.55}
            onClick={() => {
              if (verb.not === undefined) {
                setDone(undefined);
                setOpen(verb);
              }
            }}
          >
            {verb.name}…
          </Button>
        ))}
      </Flex>
      {done && (
        <Alert.Root status="success" mt={3} size="sm" alignItems="flex-start" role="status">
          <Alert.Indicator />
          <Alert.Content>
            <Alert.Title>{done.words}</Alert.Title>
            {done.runs.length > 0 && (
              <Alert.Description>
                {done.runs.map((run, at) => (
                  <Outcome key={run.run_id} view={view} run={run} spans={done.verb.name === "Backfill" ? spansOfRun(view, done.verb, at) : undefined} onEnded={onChanged} />
                ))}
              </Alert.Description>
            )}
          </Alert.Content>
        </Alert.Root>
      )}
      {open && (
        <Confirm
          verb={open}
          told={view.told}
          onClose={() => setOpen(undefined)}
          onDone={(one) => {
            setOpen(undefined);
            setDone({ ...one, verb: open });
            onChanged();
          }}
        />
      )}
    </Box>
  );
}

const SECONDS = 2;

/** What one of the runs of a verb is about. */
const spansOfRun = ({ axis }: View, { spans }: Verb, at: number) => (axis.grain === "key" ? spans : spans.slice(at, at + 1));

/** A run that was started here: how it goes, and when it has ended, which partitions it made and which it left. */
function Outcome(props: { view: View; run: RunLink; spans: [string, string][] | undefined; onEnded: () => void }) {
  const { view, run, spans } = props;
  const [state, setState] = useState("queued");
  const ended = useRef(props.onEnded);
  ended.current = props.onEnded;
  const over = state === "success" || state === "failed";
  useEffect(() => {
    if (over) {
      ended.current();
      return undefined;
    }
    const timer = setInterval(() => void stateOf(run).then(setState, () => undefined), SECONDS * 1000);
    return () => clearInterval(timer);
  }, [over, run]);
  const { made, left } = outcome(view, run, spans ?? []);
  return (
    <div>
      Run <Run dag={run.dag_id} run={run.run_id} />: {state}
      {over && spans !== undefined && (
        <>
          . {made} of {made + left.length} written by it
          {left.length > 0 && (
            <Box as="ul" aria-label="What it left" maxH="10rem" overflowY="auto" tabIndex={0}>
              {left.map((place) => (
                <li key={place}>
                  {view.axis.key(place)} was left: <StateName state={view.state(place)} />
                </li>
              ))}
            </Box>
          )}
        </>
      )}
    </div>
  );
}

function Confirm(props: { verb: Verb; told: DatasetTold; onClose: () => void; onDone: (done: Done) => void }) {
  const { verb, told, onClose, onDone } = props;
  const [reason, setReason] = useState("");
  const [failure, setFailure] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const empty = reason.trim() === "";
  const submit = async () => {
    setBusy(true);
    setFailure(undefined);
    try {
      onDone(await carryOut(told, verb, reason.trim()));
    } catch (error) {
      setFailure(known(error));
      setBusy(false);
    }
  };
  return (
    <Dialog.Root
      open
      size="md"
      onOpenChange={({ open }) => !open && onClose()}
      initialFocusEl={() => field.current}
      scrollBehavior="inside"
    >
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content>
            <chakra.form
              display="contents"
              onSubmit={(event) => {
                event.preventDefault();
                if (!empty && !busy) void submit();
              }}
            >
              <Dialog.Header>
                <Dialog.Title>
                  {verb.name} {verb.what}
                </Dialog.Title>
              </Dialog.Header>
              <Dialog.Body spaceY={4}>
                <Box spaceY={2}>
                  {verb.consequences.map((line) => (
                    <Text key={line}>{line}</Text>
                  ))}
                </Box>
                <Field.Root required>
                  <Field.Label>
                    Reason <Field.RequiredIndicator />
                  </Field.Label>
                  <Textarea ref={field} rows={2} value={reason} onChange={(event) => setReason(event.target.value)} />
                  <Field.HelperText>It is kept in the history, with your name.</Field.HelperText>
                </Field.Root>
                {failure && <Trouble failure={failure} />}
              </Dialog.Body>
              <Dialog.Footer>
                <Button variant="outline" type="button" onClick={onClose}>
                  Cancel
                </Button>
                <Button type="submit" disabled={empty} loading={busy}>
                  {verb.name}
                </Button>
              </Dialog.Footer>
              <Dialog.CloseTrigger asChild>
                <CloseButton size="sm" type="button" />
              </Dialog.CloseTrigger>
            </chakra.form>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}
