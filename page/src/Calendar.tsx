// The calendar: an SVG a block, one path a state in it. What is under the cursor is a cell of a grid for screen readers.

import { Box, Flex } from "@chakra-ui/react";
import { memo, useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";

import type { Axis } from "./axis.ts";
import { layout, type Block, type Cell, type Layout } from "./layout.ts";
import { ink, LOOKS, STATES, type State } from "./states.ts";

const SIDE = 30;
const HEAD = 16;
const SMALLEST = 12;
const LARGEST = 17;

export interface Selection {
  /** Where the range was begun, and where the cursor is: either may be the first. */
  anchor: number;
  cursor: number;
}

export const bounds = ({ anchor, cursor }: Selection): [number, number] =>
  anchor <= cursor ? [anchor, cursor] : [cursor, anchor];

interface Props {
  name: string;
  axis: Axis;
  /** The state of each place, one letter each. */
  letters: string;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  onOpen: () => void;
  /** What is to be said of a place, in lines. */
  describe: (place: number) => string[];
}

export function Calendar({ name, axis, letters, selection, onSelect, onOpen, describe }: Props) {
  const [ref, width] = useWidth();
  const columns = Math.floor((width - SIDE - 1) / SMALLEST);
  const drawn = useMemo(() => layout(axis, columns), [axis, columns]);
  const widest = Math.max(1, ...drawn.blocks.map((block) => block.columns));
  const size = Math.max(10, Math.min(LARGEST, Math.floor((width - SIDE - 1) / widest)));
  const [hover, setHover] = useState<number>();
  // While the mouse is down: where the range begins, and what was chosen before.
  const drag = useRef<{ anchor: number; before: Selection } | undefined>(undefined);
  const blocks = useRef(new Map<number, SVGSVGElement>());
  const [first, last] = bounds(selection);

  const placeAt = (event: PointerEvent): number | undefined => {
    for (const [index, svg] of blocks.current) {
      const box = svg.getBoundingClientRect();
      if (event.clientY < box.top || event.clientY >= box.bottom || event.clientX >= box.right) continue;
      const cell = cellAt(drawn.blocks[index], event.clientX - box.left, event.clientY - box.top, size);
      return cell && drawn.at(index, cell);
    }
    return undefined;
  };

  const press = (event: PointerEvent<HTMLDivElement>) => {
    const place = placeAt(event);
    if (place === undefined || event.button !== 0) return;
    const anchor = event.shiftKey ? selection.anchor : place;
    drag.current = { anchor, before: selection };
    onSelect({ anchor, cursor: place });
    if (event.pointerType === "mouse") event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent<HTMLDivElement>) => {
    const place = placeAt(event);
    setHover(place);
    if (drag.current !== undefined && place !== undefined) onSelect({ anchor: drag.current.anchor, cursor: place });
  };
  const cancel = () => {
    if (drag.current !== undefined) onSelect(drag.current.before);
    drag.current = undefined;
  };

  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      return onOpen();
    }
    if (event.key === "Escape") return onSelect({ anchor: selection.cursor, cursor: selection.cursor });
    const target = destination(event, selection.cursor, drawn, axis.length);
    if (target === undefined) return;
    event.preventDefault();
    const cursor = Math.max(0, Math.min(axis.length - 1, target));
    onSelect({ anchor: event.shiftKey ? selection.anchor : cursor, cursor });
  };

  // What the keys move to is brought into sight, and nothing else.
  const before = useRef(selection.cursor);
  useEffect(() => {
    if (before.current === selection.cursor) return;
    before.current = selection.cursor;
    if (drag.current === undefined) {
      document.getElementById(cellId(axis.key(selection.cursor)))?.scrollIntoView({ block: "nearest" });
    }
  }, [axis, selection.cursor]);

  const cursorBlock = drawn.blockOf(selection.cursor);
  const order = axis.grain === "key" ? drawn.blocks.map((_, at) => at) : drawn.blocks.map((_, at) => at).reverse();

  return (
    <Box
      ref={ref}
      role="grid"
      tabIndex={0}
      aria-label={`Partitions of ${name}`}
      aria-multiselectable
      aria-rowcount={drawn.blocks.reduce((sum, block) => sum + block.rows, 0)}
      aria-colcount={widest}
      aria-activedescendant={cellId(axis.key(selection.cursor))}
      onKeyDown={key}
      onPointerDown={press}
      onPointerMove={move}
      onPointerUp={() => (drag.current = undefined)}
      onPointerCancel={cancel}
      onPointerLeave={() => setHover(undefined)}
      cursor="pointer"
      userSelect="none"
      css={{ touchAction: "pan-y", "&:focus-visible": { outline: "none" }, "&:focus-visible [data-cursor]": RING }}
    >
      {width > 0 &&
        order.map((index) => {
          const block = drawn.blocks[index] as Block;
          return (
            // Plain elements: there may be a hundred blocks, and a styled one costs ten times as much.
            <div key={block.label} role="rowgroup" aria-label={block.label} style={{ marginBottom: 8 }}>
              {block.label && (
                <div aria-hidden style={TITLE}>
                  {block.label}
                </div>
              )}
              <div style={{ position: "relative", width: "fit-content" }}>
                <Marks
                  svg={(svg) => (svg === null ? blocks.current.delete(index) : blocks.current.set(index, svg))}
                  drawn={drawn}
                  block={block}
                  letters={letters.slice(block.first, block.last + 1)}
                  size={size}
                  from={Math.max(first, block.first)}
                  to={Math.min(last, block.last)}
                  shown={first !== last}
                />
                {index === cursorBlock && (
                  <Cursor
                    key={axis.key(selection.cursor)}
                    id={cellId(axis.key(selection.cursor))}
                    label={describe(selection.cursor).join(", ")}
                    row={drawn.blocks.slice(0, index).reduce((sum, one) => sum + one.rows, 0)}
                    cell={drawn.cell(selection.cursor)}
                    at={corner(block, drawn.cell(selection.cursor), size)}
                    size={size}
                  />
                )}
                {hover !== undefined && drawn.blockOf(hover) === index && (
                  <Tip lines={describe(hover)} at={corner(block, drawn.cell(hover), size)} size={size} width={width} />
                )}
              </div>
            </div>
          );
        })}
    </Box>
  );
}

const TITLE = { fontSize: 12, fontWeight: 600, fontVariantNumeric: "tabular-nums" } as const;

const RING = { outline: "2px solid", outlineColor: "fg", outlineOffset: "1px" };

/** A reference by id is parted by spaces, which a key may have. */
const cellId = (key: string) => `partition-${encodeURIComponent(key)}`;

/** Where a key of the keyboard leads to. */
function destination(event: KeyboardEvent, cursor: number, drawn: Layout, length: number): number | undefined {
  const block = drawn.blocks[drawn.blockOf(cursor)];
  const { right, down } = drawn.step;
  const page = block === undefined ? 1 : block.last - block.first + 1;
  switch (event.key) {
    case "ArrowRight":
      return cursor + right;
    case "ArrowLeft":
      return cursor - right;
    case "ArrowDown":
      return cursor + down;
    case "ArrowUp":
      return cursor - down;
    case "Home":
      return event.ctrlKey ? 0 : block?.first;
    case "End":
      return event.ctrlKey ? length - 1 : block?.last;
    case "PageUp":
      return cursor + page;
    case "PageDown":
      return cursor - page;
    default:
      return undefined;
  }
}

const lineOf = (block: Block, row: number) => Math.floor(row / block.rowsPerLine);

/** The upper left corner of a cell in its block, in pixels. */
function corner(block: Block, { column, row }: Cell, size: number): [number, number] {
  return [SIDE + column * size, HEAD * (lineOf(block, row) + 1) + row * size];
}

function cellAt(block: Block | undefined, x: number, y: number, size: number): Cell | undefined {
  if (block === undefined || x < SIDE) return undefined;
  const height = HEAD + block.rowsPerLine * size;
  const line = Math.floor(y / height);
  const within = Math.floor((y - line * height - HEAD) / size);
  return within < 0 ? undefined : { column: Math.floor((x - SIDE) / size), row: line * block.rowsPerLine + within };
}

interface MarksProps {
  svg: (svg: SVGSVGElement | null) => void;
  drawn: Layout;
  block: Block;
  letters: string;
  size: number;
  from: number;
  to: number;
  shown: boolean;
}

/** One block. It is drawn again only where its own letters, its size or its part of the range have changed. */
const Marks = memo(
  function Marks({ svg, drawn, block, letters, size, from, to, shown }: MarksProps) {
    const paths = useMemo(() => statePaths(drawn, block, letters, size), [drawn, block, letters, size]);
    const lines = block.rows / block.rowsPerLine;
    const height = lines * HEAD + block.rows * size;
    const width = SIDE + block.columns * size + 1;
    return (
      <div style={{ contentVisibility: "auto", containIntrinsicSize: `${width}px ${height}px` }}>
      <svg ref={svg} aria-hidden width={width} height={height} style={{ display: "block" }}>
        <g style={{ fill: "var(--chakra-colors-fg-muted)", fontSize: 10 }}>
          {block.heads.map(({ column, line, text }) => (
            <text
              key={`${line}-${column}`}
              x={SIDE + column * size + 1}
              y={line * (HEAD + block.rowsPerLine * size) + HEAD - 5}
            >
              {text}
            </text>
          ))}
          {block.sides.map(({ row, text }) => (
            <text key={row} x={SIDE - 5} y={corner(block, { column: 0, row }, size)[1] + size - 3} textAnchor="end">
              {text}
            </text>
          ))}
        </g>
        {shown && from <= to && <path d={ground(drawn, block, from, to, size)} fill="var(--bf-range)" />}
        {paths.map(([state, path]) =>
          LOOKS[state].outline === true ? (
            <path key={state} d={path} fill="none" stroke={ink(state)} strokeWidth={1} />
          ) : (
            <path key={state} d={path} fill={ink(state)} fillRule="evenodd" />
          ),
        )}
        {shown && from <= to && (
          <path
            d={outline(drawn, block, from, to, size)}
            fill="none"
            stroke="var(--bf-line)"
            strokeWidth="2"
            strokeLinejoin="round"
          />
        )}
      </svg>
      </div>
    );
  },
  (a, b) =>
    a.drawn === b.drawn &&
    a.block === b.block &&
    a.letters === b.letters &&
    a.size === b.size &&
    a.shown === b.shown &&
    ((a.from === b.from && a.to === b.to) || (a.from > a.to && b.from > b.to)),
);

function statePaths(drawn: Layout, block: Block, letters: string, size: number): [State, string][] {
  const found = new Map<State, string[]>();
  for (let at = 0; at < letters.length; at += 1) {
    const state = STATES[letters.charCodeAt(at) - 48] ?? "missing";
    const [x, y] = corner(block, drawn.cell(block.first + at), size);
    const path = LOOKS[state].path(x + 1.5, y + 1.5, size - 3);
    const paths = found.get(state);
    if (paths === undefined) found.set(state, [path]);
    else paths.push(path);
  }
  return [...found].map(([state, paths]) => [state, paths.join("")]);
}

/** The outline of a range. */
function outline(drawn: Layout, block: Block, from: number, to: number, size: number): string {
  const chosen = (column: number, row: number, line: number) => {
    if (row < 0 || column < 0 || column >= block.columns || lineOf(block, row) !== line) return false;
    const place = drawn.at(drawn.blockOf(from), { column, row });
    return place !== undefined && place >= from && place <= to;
  };
  let path = "";
  for (let place = from; place <= to; place += 1) {
    const { column, row } = drawn.cell(place);
    const line = lineOf(block, row);
    const [x, y] = corner(block, { column, row }, size);
    if (!chosen(column, row - 1, line)) path += `M${x} ${y}h${size}`;
    if (!chosen(column, row + 1, line)) path += `M${x} ${y + size}h${size}`;
    if (!chosen(column - 1, row, line)) path += `M${x} ${y}v${size}`;
    if (!chosen(column + 1, row, line)) path += `M${x + size} ${y}v${size}`;
  }
  return path;
}

/** The cells of a range, to be laid under them. */
function ground(drawn: Layout, block: Block, from: number, to: number, size: number): string {
  let path = "";
  for (let place = from; place <= to; place += 1) {
    const [x, y] = corner(block, drawn.cell(place), size);
    path += `M${x} ${y}h${size}v${size}h${-size}z`;
  }
  return path;
}

function Cursor(props: {
  id: string;
  label: string;
  row: number;
  cell: Cell;
  at: [number, number];
  size: number;
}) {
  const { id, label, row, cell, at, size } = props;
  return (
    <Box role="row" aria-rowindex={row + cell.row + 1}>
      <Box
        id={id}
        role="gridcell"
        aria-selected
        aria-colindex={cell.column + 1}
        aria-label={label}
        data-cursor
        position="absolute"
        left={`${at[0]}px`}
        top={`${at[1]}px`}
        boxSize={`${size}px`}
        borderWidth="2px"
        borderColor="fg"
        borderRadius="sm"
        pointerEvents="none"
        css={{ scrollMargin: "80px" }}
      />
    </Box>
  );
}

function Tip({ lines, at, size, width }: { lines: string[]; at: [number, number]; size: number; width: number }) {
  const right = at[0] > width / 2;
  return (
    <Flex
      aria-hidden
      direction="column"
      position="absolute"
      top={`${at[1] + size + 6}px`}
      {...(right ? { right: `calc(100% - ${at[0] + size}px)` } : { left: `${at[0]}px` })}
      zIndex="tooltip"
      bg="bg.inverted"
      color="fg.inverted"
      fontSize="xs"
      px={2}
      py={1}
      borderRadius="sm"
      shadow="md"
      maxW="sm"
      w="max-content"
      pointerEvents="none"
    >
      {lines.map((line, at) => (
        <Box key={line} fontWeight={at === 0 ? "semibold" : undefined}>
          {line}
        </Box>
      ))}
    </Flex>
  );
}

function useWidth() {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width] as const;
}
