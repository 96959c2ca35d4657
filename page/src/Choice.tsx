// What is chosen, in fields: for who types rather than drags.

import { Button, Field, Flex, Heading, Input, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";

import { counted, rangeText } from "./axis.ts";
import type { Selection } from "./Calendar.tsx";
import type { View } from "./view.ts";

interface Props {
  view: View;
  first: number;
  last: number;
  onSelect: (selection: Selection) => void;
}

export function Choice({ view: { axis }, first, last, onSelect }: Props) {
  const [from, setFrom] = useState(axis.key(first));
  const [to, setTo] = useState(axis.key(last));
  useEffect(() => setFrom(axis.key(first)), [axis, first]);
  useEffect(() => setTo(axis.key(last)), [axis, last]);
  const places = [axis.place(from), axis.place(to)] as const;
  const wrong = places.includes(undefined);
  const fields = [
    ["From", from, setFrom, 0],
    ["To, inclusive", to, setTo, 1],
  ] as const;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const [anchor, cursor] = places;
        if (anchor !== undefined && cursor !== undefined) onSelect({ anchor, cursor });
      }}
    >
      <Heading as="h2" size="md" fontVariantNumeric="tabular-nums" aria-live="polite">
        {rangeText(axis.key(first), axis.key(last))}
      </Heading>
      {first !== last && <Text color="fg.muted">{counted(last - first + 1, axis.grain)}</Text>}
      <Flex gap={2} mt={2} align="end">
        {fields.map(([label, value, set, at]) => (
          <Field.Root key={label} invalid={places[at] === undefined}>
            <Field.Label fontSize="xs">{label}</Field.Label>
            <Input
              size="xs"
              value={value}
              autoComplete="off"
              fontVariantNumeric="tabular-nums"
              onChange={(event) => set(event.target.value)}
            />
          </Field.Root>
        ))}
        <Button type="submit" size="xs" variant="outline" disabled={wrong}>
          Choose
        </Button>
      </Flex>
      {wrong && (
        <Text fontSize="xs" color="fg.error" mt={1} role="alert">
          From {axis.key(0)} to {axis.key(axis.length - 1)}, written like these.
        </Text>
      )}
    </form>
  );
}
