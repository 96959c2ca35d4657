"""Lines as writers emit them, and as they should not: what the engines and the strict parser have to agree on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backfill_core.counting.pieces import Piece
from backfill_core.counting.spans import count_strictly

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from backfill_core.counting.spans import Engine

DT = "2026-02-01"

ORDER_IDS = ["A-1", "", "x", "2026-02-01-0000001", "o" * 40, "주문-7", "é", "\U0001f600", "\u2028", "\x7f", ", ", "}{"]
HARSH_ORDER_IDS = ['"', "\\", 'a"b', "\\u0041", "a\nb", "\t", "\x00", "\ud800", '", "dt": "2026-02-01", "amount": 5']
AMOUNTS = [
    *["0", "-0", "00", "01", "-01", "+1", "1.0", "-1.5", "1e3", "1E-2", "- 1", "1 2", "1_000", "", "-", "--1", "0x10"],
    *["NaN", "-Infinity", "Infinity", "true", "false", "null", '"5"', "[]", "{}", "-00000001", "000000001"],
    *["9", "-9", "99999999", "-99999999", "100000000", "-100000000", "123456789012345678", "-999999999999999999"],
    *[
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "9" * 40,
        "1" * 5000,
    ],
    *["\u0661", "\xb2", "1\u00a0", "\xba\xb9", "1\u2028"],
]
STATUSES = [
    '"paid"',
    '"refund"',
    '"Paid"',
    '"paid "',
    '"refunded"',
    '"pai\\u0064"',
    "null",
    "true",
    '""',
    "paid",
    '"paid',
]
DATES = [f'"{DT}"', '"2026-02-02"', '"2026-2-01"', '"2026-02-01 "', '"2026-02-0\\u0031"', "20260201", "null"]
BITS = [
    b'"',
    b"\\",
    b",",
    b":",
    b" ",
    b"{",
    b"}",
    b"\r",
    b"\t",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xc2\xba",
]
CONTROLS = [b"\x00", b"\t", b"\r", b"\x1f"]
BITS += [
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"0",
    b"-",
    b"e",
    b"\\u",
    b"/*",
    b"null",
    b"\xf4\x90\x80\x80",
]


def usual_line(rng: Random) -> str:
    """Return an order as `json.dumps` writes it, with its spaces."""
    amount = rng.choice([rng.randrange(1, 10 ** rng.randrange(1, 10)), rng.randrange(1, 100_000)])
    refund = rng.random() < 0.2
    return (
        f'{{"order_id": "{rng.choice(ORDER_IDS)}", "dt": "{DT}", "amount": {-amount if refund else amount}, '
        f'"status": "{"refund" if refund else "paid"}"}}'
    )


def compact(line: str) -> str:
    """Return the line without the spaces after its separators."""
    return line.replace('": ', '":').replace(', "', ',"')


def odd_line(rng: Random, style: Callable[[str], str]) -> bytes:
    """Return a line that is unusual, and mostly wrong, in one of many ways."""
    line = style(usual_line(rng)).encode()
    way = rng.randrange(16)
    if way == 0:
        return rng.choice(
            [b"", b" ", b"\r", b" \t\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf" + line, b"[]", b"1", b"null", b"x"]
        )
    if way == 1:
        return line[: rng.randrange(len(line))]
    if way == 2:
        return line + rng.choice([b" ", b"\r", b"\r\r", b"\t \r", line, b",", b"\x0b", b"}"])
    if way == 3:
        return rng.choice([b" ", b"\r", b"\t", b"\x0c", b"{", line + b" "]) + line
    if way == 4:
        return _with(rng, amount=rng.choice(AMOUNTS), status=rng.choice(STATUSES[:2]))
    if way == 5:
        return _with(rng, status=rng.choice(STATUSES), amount=rng.choice(["5", "-5", "0", "-0"]))
    if way == 6:
        return _with(rng, dt=rng.choice(DATES))
    if way == 7:
        spelled = json.dumps(rng.choice(HARSH_ORDER_IDS + ORDER_IDS), ensure_ascii=rng.random() < 0.5)
        raw = f'"{rng.choice(HARSH_ORDER_IDS)}"'
        return _with(rng, order_id=rng.choice([spelled, raw, "5", "null", "[1]"]))
    if way == 8:
        return _reordered(rng, line)
    position = rng.randrange(len(line))
    if way == 9:
        return line[:position] + rng.choice(BITS) + line[position:]
    if way == 10:
        return line[:position] + rng.choice(BITS) + line[position + 1 :]
    if way == 11:
        return line[:position] + line[position + rng.randrange(1, 4) :]
    if way == 12:
        return line[:position] + bytes([line[position] ^ 1 << rng.randrange(8)]) + line[position + 1 :]
    if way in (13, 14):
        inside = line.index(b'"', len('{"order_id":')) + 1
        return line[:inside] + rng.choice(rng.choice([BITS, BITS[:2], CONTROLS])) + line[inside:]
    other = rng.randrange(len(line))
    return line[:position] + line[other : other + rng.randrange(12)] + line[position:]


def _with(
    rng: Random, order_id: str = '"A-1"', dt: str = f'"{DT}"', amount: str = "5", status: str = '"paid"'
) -> bytes:
    space = rng.choice([" ", "", "  "]) if rng.random() < 0.2 else " "
    pairs = (("order_id", order_id), ("dt", dt), ("amount", amount), ("status", status))
    fields = f",{space}".join(f'"{key}":{space}{value}' for key, value in pairs)
    return f"{{{fields}}}".encode("utf-8", "surrogatepass")


def _reordered(rng: Random, line: bytes) -> bytes:
    pairs = list(json.loads(line).items())
    change = rng.randrange(4)
    if change == 0:
        rng.shuffle(pairs)
    elif change == 1:
        del pairs[rng.randrange(4)]
    elif change == 2:
        pairs.insert(rng.randrange(5), (rng.choice(["more", "Amount", ""]), rng.choice([None, 1.5, [1, {"a": "\n"}]])))
    else:
        pairs.append(rng.choice(pairs))
    return b"{" + b", ".join(f"{json.dumps(key)}: {json.dumps(value)}".encode() for key, value in pairs) + b"}"


def some_lines(rng: Random, number: int, oddness: float) -> bytes:
    """Return lines in one style each, of which a share are odd, each ended by a newline."""
    style: Callable[[str], str] = str if rng.random() < 0.5 else compact
    newline = rng.choice([b"\n", b"\n", b"\r\n"])
    return b"".join(
        odd_line(rng, style).replace(b"\n", b" ") + newline
        if rng.random() < oddness
        else style(usual_line(rng)).encode() + newline
        for _ in range(number)
    )


def verdicts(lines: bytes) -> tuple[int, int, int]:
    """Return the strict parser's: how many orders, what they add up to, and how many lines are wrong."""
    judged = [count_strictly([line], DT) for line in lines.split(b"\n")[:-1]]
    wrong = sum(part.fault is not None for part in judged)
    return sum(part.orders for part in judged), sum(part.amount for part in judged), wrong


def disagreement(lines: bytes, engine: Engine) -> str | None:
    """Return how engine and strict parser together differ from the strict parser alone, None if they do not."""
    found = engine.add_up(Piece.of(lines), DT)
    orders, amount, wrong = verdicts(found.rest)
    told = (found.orders + orders, found.amount + amount, wrong)
    right = verdicts(lines)
    if told == right and found.lines == lines.count(b"\n"):
        return None
    return f"{told} instead of {right} of {lines!r}"
