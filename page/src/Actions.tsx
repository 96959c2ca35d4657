// What can be done with what is chosen. Each action says in words what will happen, and asks why.

import { Alert, Box, Button, chakra, CloseButton, Dialog, Field, Flex, Portal, Text, Textarea } from "@chakra-ui/react";
import { useRef, useState } from "react";

import { Run, Trouble } from "./parts.tsx";
import { carryOut, type DatasetTold, type Done, type Failure, known } from "./server.ts";
import { offered, type Verb } from "./verbs.ts";
import type { View } from "./view.ts";

interface Props {
  view: View;
  places: readonly number[];
  onChanged: () => void;
}

export function Actions({ view, places, onChanged }: Props) {
  const [open, setOpen] = useState<Verb>();
  const [done, setDone] = useState<Done>();
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
                {done.runs.map(({ dag_id, run_id }) => (
                  <div key={run_id}>
                    Run <Run dag={dag_id} run={run_id} />
                  </div>
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
            setDone(one);
            onChanged();
          }}
        />
      )}
    </Box>
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
