"""Lines that refuse their partition, each with its number, and lines that are no fault."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from .grader import LARGEST, SMALLEST, Lab, days, line, lines, reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .grader import Answer

D = "2026-02-01"
EARLIER = (9, 99, "earlier")


def without(key: str) -> str:
    """A good line that lacks one field."""
    return "{" + ", ".join(part for part in line()[1:-1].split(", ") if not part.startswith(f'"{key}"')) + "}"


def put(old: str, new: str) -> str:
    """A good line with one stretch of its text replaced."""
    good = line()
    assert old in good
    return good.replace(old, new)


BAD: dict[str, str | bytes] = {
    # Not a JSON object
    "a list": "[]",
    "a list with an object": f"[{line()}]",
    "a string": '"order"',
    "a number": "5",
    "null": "null",
    "true": "true",
    "a word": "oops",
    "an empty object": "{}",
    "two objects": line() + line(),
    "two objects and a blank": line() + " " + line(),
    "two objects and a comma": line() + "," + line(),
    "a comma after the object": line() + ",",
    "a comma after the last field": put("}", ",}"),
    "a comma missing": put(', "amount"', ' "amount"'),
    "a colon missing": put('"amount":', '"amount"'),
    "single quotes": line().replace('"', "'"),
    "typographic quotes": line().replace('"', "”"),
    "a key without quotes": put('"amount"', "amount"),
    "a comment": line() + " // late",
    "text before": "x" + line(),
    "text after": line() + "x",
    "a brace too many": line() + "}",
    "a cut line": line()[:-10],
    "a line that lacks its brace": line()[:-1],
    "a raw tab in a string": put("o-1", "o\t1"),
    "a raw control character in a string": put("o-1", "o\x0b1"),
    "a bell in a string": put("o-1", "o\x071"),
    "a null byte": put("o-1", "o\x001"),
    "null bytes after the object": line() + "\x00\x00",
    "an unknown escape": put("o-1", "o\\x31"),
    "a backslash at the end of a string": put("o-1", "o-1\\"),
    "half an escape": put("o-1", "o\\u12"),
    "a no-break space between": put(", ", ",\u00a0"),
    "a form feed between": put(", ", ",\x0c"),
    # The amount
    "an amount in quotes": put(": 5", ': "5"'),
    "an amount with a point": put(": 5", ": 5.0"),
    "an amount with a fraction": put(": 5", ": 5.25"),
    "an amount with an exponent": put(": 5", ": 5e0"),
    "an amount with a large exponent": put(": 5", ": 1E400"),
    "an amount that is true": put(": 5", ": true"),
    "an amount that is false": put(": 5", ": false"),
    "an amount that is null": put(": 5", ": null"),
    "an amount that is a list": put(": 5", ": [5]"),
    "an amount that is an object": put(": 5", ": {}"),
    "an amount that is empty": put(": 5", ": "),
    "an amount with a leading nought": put(": 5", ": 05"),
    "an amount with a plus": put(": 5", ": +5"),
    "an amount in hexadecimal": put(": 5", ": 0x5"),
    "an amount with an underscore": put(": 5", ": 5_0"),
    "an amount with a comma": put(": 5", ": 5,000"),
    "an amount in full-width digits": put(": 5", ": \uff15"),
    "an amount of NaN": put(": 5", ": NaN"),
    "an amount of Infinity": put(": 5", ": Infinity"),
    "an amount of -Infinity": put(": 5", ": -Infinity"),
    "NaN in another field": put("}", ', "note": NaN}'),
    "Infinity deep in another field": put("}", ', "note": [{"x": -Infinity}]}'),
    "an amount of 2**63": line(LARGEST + 1),
    "an amount of -2**63 - 1": line(SMALLEST - 1),
    "an amount of 2**64 + 5": line(2**64 + 5),
    "an amount of 5000 digits": put(": 5", ": " + "9" * 5000),
    "a refund of 5000 digits": put('5, "status": "paid"', "-" + "9" * 5000 + ', "status": "refund"'),
    # The other fields
    "no order_id": without("order_id"),
    "no dt": without("dt"),
    "no amount": without("amount"),
    "no status": without("status"),
    "a field in other letters": put('"amount"', '"Amount"'),
    "an order_id that is a number": put('"o-1"', "1"),
    "an order_id that is null": put('"o-1"', "null"),
    "an order_id that is a list": put('"o-1"', '["o-1"]'),
    "the next day": line(dt="2026-02-02"),
    "another year": line(dt="2025-02-01"),
    "a dt of one digit": line(dt="2026-2-1"),
    "a dt with a time": line(dt="2026-02-01T00:00:00"),
    "a dt with a blank": line(dt="2026-02-01 "),
    "an empty dt": line(dt=""),
    "a dt that is null": put(f'"{D}"', "null"),
    "a dt that is a number": put(f'"{D}"', "20260201"),
    "a dt in full-width digits": line(dt="\uff12\uff10\uff12\uff16-02-01"),
    "an unknown status": line(status="pending"),
    "a status in capitals": line(status="PAID"),
    "a status with a blank": line(status="paid "),
    "an empty status": line(status=""),
    "a status that is null": put('"paid"', "null"),
    "a status that is true": put('"paid"', "true"),
    "a status that is a list": put('"paid"', '["paid"]'),
    "a refund that is positive": line(5, status="refund"),
    "a refund of nought": line(0, status="refund"),
    "a refund of minus nought": put('5, "status": "paid"', '-0, "status": "refund"'),
    # A key twice
    "order_id twice": put("}", ', "order_id": "o-1"}'),
    "dt twice": put("}", f', "dt": "{D}"}}'),
    "amount twice": put("}", ', "amount": 5}'),
    "status twice": put("}", ', "status": "paid"}'),
    "amount twice, once escaped": put("}", ', "\\u0061mount": 5}'),
    "another field twice": put("}", ', "note": 1, "note": 1}'),
    "a wrong amount before the right one": put('"amount"', '"amount": "x", "amount"'),
    # Not UTF-8
    "Latin-1": put("o-1", "café").encode("latin-1"),
    "a byte that UTF-8 never has": put("o-1", "o?1").encode().replace(b"?", b"\xff"),
    "a continuation byte alone": put("o-1", "o?1").encode().replace(b"?", b"\x80"),
    "half a character": put("o-1", "o?1").encode().replace(b"?", b"\xe2\x82"),
    "an overlong slash": put("o-1", "o?1").encode().replace(b"?", b"\xc0\xaf"),
    "a surrogate in UTF-8": put("o-1", "o?1").encode().replace(b"?", b"\xed\xa0\x80"),
    "beyond Unicode": put("o-1", "o?1").encode().replace(b"?", b"\xf4\x90\x80\x80"),
    "UTF-16": line().encode("utf-16-le"),
    "bytes that are not UTF-8 in another field": put("}", ', "note": "?"}').encode().replace(b"?", b"\xfe"),
}

GOOD: dict[str, tuple[str | bytes, int, int]] = {
    "no blanks": (line().replace(" ", ""), 1, 5),
    "blanks everywhere": ('  {  "order_id"\t:  "o" , "dt" :"2026-02-01","amount":  5 ,"status" : "paid" }  ', 1, 5),
    "another order of fields": (f'{{"status": "refund", "amount": -5, "dt": "{D}", "order_id": "o"}}', 1, -5),
    "another field": (put("}", ', "note": null}'), 1, 5),
    "another field in front": (put("{", '{"note": {"amount": 7, "status": []}, '), 1, 5),
    "a field that looks like the amount": (put("}", ', "note": "\\", \\"amount\\": 7"}'), 1, 5),
    "a fraction in another field": (put("}", ', "rate": 0.5e-3}'), 1, 5),
    "a field of much text": (put("}", ', "note": "' + "x" * 300_000 + '"}'), 1, 5),
    "a long order_id": (line(order_id="o" * 300_000), 1, 5),
    "an escaped order_id": (put("o-1", '\\u00e9\\n\\\\\\/\\"'), 1, 5),
    "an escaped status": (put("paid", "p\\u0061id"), 1, 5),
    "an escaped key": (put('"amount"', '"\\u0061mount"'), 1, 5),
    "an escaped date": (put("2026-", "2026\\u002d"), 1, 5),
    "Korean, emoji and right to left": (line(order_id="주문 🙂 \u202eطلب"), 1, 5),
    "a pair of surrogates, escaped": (put("o-1", "\\ud83d\\ude42"), 1, 5),
    "braces and quotes in order_id": (line(order_id='}{"amount": 7}'), 1, 5),
    "a delete character in order_id": (line(order_id="o\x7f1"), 1, 5),
    "an amount of nought": (line(0), 1, 0),
    "the largest amount": (line(LARGEST - 1_000), 1, LARGEST - 1_000),
    "the smallest refund": (line(SMALLEST), 1, SMALLEST),
    "a refund of one": (line(-1), 1, -1),
    "the same order twice": (line() + "\n" + line(), 2, 10),
    "a blank line": ("", 0, 0),
    "a line of blanks": ("   \t ", 0, 0),
    "blank lines": ("\n\n\n", 0, 0),
    "U+2028 in a string": (line(order_id="a\u2028b"), 1, 5),
    "U+2029 in a string": (line(order_id="a\u2029b"), 1, 5),
    "U+0085 in a string": (line(order_id="a\u0085b"), 1, 5),
    "a carriage return before the end of the line": (line() + "\r", 1, 5),
    "a carriage return alone": ("\r", 0, 0),
}


def as_bytes(text: str | bytes) -> bytes:
    """UTF-8, if it is not bytes already."""
    return text.encode() if isinstance(text, str) else text


def at(text: str | bytes, dt: str) -> bytes:
    """A line, or lines, of another day of 2026."""
    return as_bytes(text).replace(D[5:].encode(), dt[5:].encode())


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """Every line of both tables between good ones, each as a day of its own, and what one run says of them all."""
    lab = Lab(tmp_path_factory.mktemp("judged") / "lab")
    lab.ok("init")
    dates = days("2026-03-01", len(BAD) + len(GOOD))
    cases = dict(zip([*BAD, *GOOD], dates, strict=True))
    for dt, text in zip(dates, [*BAD.values(), *(text for text, _, _ in GOOD.values())], strict=True):
        lab.write_bytes(dt, lines(dt, [1, 2]) + at(text, dt) + b"\n" + lines(dt, [3]))
    lab.hold_all(dates, *EARLIER)
    yield Judged(lab, cases, lab("run", dates[0], dates[-1], "alice"))
    lab.close()


@dataclass(frozen=True)
class Judged:
    """A run over all cases; `dates` says which day has which."""

    lab: Lab
    dates: dict[str, str]
    answer: Answer


def refused_at(lab: Lab, content: bytes) -> int:
    """Run the content as a partition, expect that it is refused and the old result kept; give the line's number."""
    lab.write_bytes(D, content)
    lab.query("DELETE FROM daily")
    lab.hold(D, *EARLIER)

    answer = lab("run", D, D, "alice")

    assert answer.code == 1, answer
    assert answer.json["done"] == answer.json["skipped"] == []
    [[dt, where]] = answer.json["failed"]
    assert dt == D
    place, number, what = where.split(f"dt={D}.jsonl", 1)[1].split(":", 2)
    assert place == ""
    assert what.strip()
    assert lab.daily == {D: EARLIER}
    return int(number)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_refuses_its_partition_by_number(judged: Judged, case: str) -> None:
    dt = judged.dates[case]

    [where] = [where for failed, where in judged.answer.json["failed"] if failed == dt]

    assert reference(judged.lab.path(dt).read_bytes(), dt) == 3
    assert f"dt={dt}.jsonl:3: " in where
    assert dt not in judged.answer.json["done"]
    assert judged.lab.daily[dt] == EARLIER


@pytest.mark.parametrize(("case", "orders", "amount"), [(case, *count) for case, (_, *count) in GOOD.items()], ids=GOOD)
def test_what_is_no_fault_is_counted(judged: Judged, case: str, orders: int, amount: int) -> None:
    dt = judged.dates[case]

    row = judged.lab.daily[dt]

    assert row == (orders + 3, amount + 6, "alice")
    assert dt in judged.answer.json["done"]


def test_the_bad_partitions_of_a_long_range_stop_none_of_the_others(judged: Judged) -> None:
    answer = judged.answer

    assert answer.code == 1
    assert [dt for dt, _ in answer.json["failed"]] == [judged.dates[case] for case in BAD]
    assert answer.json["done"] == [judged.dates[case] for case in GOOD]


ONE = lines(D, [5])
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("content", "orders"),
    [
        (b"", 0),
        (b"\n", 0),
        (b"\r\n\r\n", 0),
        (b" ", 0),
        (BOM, 0),
        (BOM + b"\n", 0),
        (BOM + ONE, 1),
        (BOM + b"\r\n" + ONE, 1),
        (ONE, 1),
        (ONE.rstrip(), 1),
        (ONE + ONE.rstrip(), 2),
        (b"\n" + ONE, 1),
        (ONE + b"\n\n", 1),
        (ONE.replace(b"\n", b"\r\n") * 3, 3),
        ((ONE.replace(b"\n", b"\r\n") * 3).rstrip(), 3),
        (ONE + ONE.replace(b"\n", b"\r\n") + ONE, 3),
        (BOM + ONE.replace(b"\n", b"\r\n") + b"\r\n" + ONE.rstrip(), 2),
        (ONE + b"   ", 1),
    ],
    ids=lambda value: repr(value).replace(ONE.decode().rstrip(), "L") if isinstance(value, bytes) else "",
)
def test_ends_of_lines_bom_and_blank_lines_are_no_faults(lab: Lab, content: bytes, orders: int) -> None:
    lab.write_bytes(D, content)

    answer = lab.ok("run", D, D, "alice")

    assert answer["done"] == [D]
    assert (answer["orders"], answer["amount"]) == (orders, 5 * orders)


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"oops", 1),
        (b"oops\n", 1),
        (BOM + b"oops\n", 1),
        (b"\noops\n", 2),
        (BOM + b"\r\n\r\noops\r\n", 3),
        (ONE + b"\n\n" + ONE + b"oops", 5),
        (ONE.replace(b"\n", b"\r\n") * 4 + b"oops\r\n" + ONE, 5),
        (line(order_id="a\u2028b\u2029c\u0085d").encode() + b"\n" + b"oops\n", 2),
        (ONE * 9 + ONE[:-3], 10),
        (ONE * 9 + ONE[:20], 10),
        (ONE * 9 + b"{", 10),
        (ONE * 3 + b"oops\n" + ONE + b"oops\n", 4),
        (ONE + ONE.replace(b'"paid"', b'"refund"') + b"oops\n", 2),
        (ONE + ONE.rstrip() + ONE, 2),
        (ONE + ONE.replace(b", ", b",\n", 1) + ONE, 2),
        (ONE + BOM + ONE, 2),
        (ONE + b'"\n' + ONE + b'"\n', 2),
    ],
    ids=lambda value: repr(value).replace(ONE.decode().rstrip(), "L") if isinstance(value, bytes) else "",
)
def test_lines_are_numbered_as_an_editor_does(lab: Lab, content: bytes, number: int) -> None:
    assert reference(content, D) == number
    assert refused_at(lab, content) == number


@pytest.mark.parametrize("number", [1, 2_500, 10_000])
@pytest.mark.parametrize(
    "bad",
    ["oops", line(5, status="refund"), line(2**63), put("}", ', "amount": 5}')],
    ids=["oops", "refund", "2**63", "twice"],
)
def test_a_bad_line_is_found_anywhere_in_a_large_file(lab: Lab, number: int, bad: str) -> None:
    good = lines(D, range(1, 10_001)).splitlines(keepends=True)
    good[number - 1] = bad.encode() + b"\n"

    assert refused_at(lab, b"".join(good)) == number


def test_lines_of_every_length_are_counted_over_the_edges_of_what_is_read_at_once(lab: Lab) -> None:
    content = b"".join(line(n, order_id="é" * n).encode() + b"\n" for n in range(1, 2_000))
    lab.write_bytes(D, content)

    answer = lab.ok("run", D, D, "alice")

    assert (answer["orders"], answer["amount"]) == reference(content, D) == (1_999, 1_999_000)


def test_a_large_file_of_mixed_spellings_is_counted_right(lab: Lab) -> None:
    chance = random.Random(7)
    spellings = [
        line(5),
        line(-3),
        line(5).replace(" ", ""),
        put("o-1", "\\u00e9"),
        "",
        line(12) + "\r",
        put("}", ', "x": 1}'),
    ]
    content = "\n".join(chance.choices(spellings, k=30_000)).encode()
    lab.write_bytes(D, content)

    answer = lab.ok("run", D, D, "alice")

    assert (answer["orders"], answer["amount"]) == reference(content, D)


def test_a_field_nested_very_deeply_makes_no_traceback(lab: Lab) -> None:
    lab.write_bytes(D, put("}", ', "note": ' + "[" * 100_000 + "]" * 100_000 + "}").encode())

    answer = lab("run", D, D, "alice")

    assert answer.code in (0, 1)
    assert ("failed" in answer.json) == (answer.code == 1)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_are_judged_as_a_strict_reader_would(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    dates = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    expected = {}
    for dt in dates:
        content = damaged(lines(dt, chance.choices([5, 1_234, -77, LARGEST, 0], k=3)), chance)
        expected[dt] = reference(content, dt)
        lab.write_bytes(dt, content)

    answer = lab("run", dates[0], "2026-12-31", "alice")

    failed = {dt: where.split(".jsonl", 1)[1] for dt, where in answer.json.get("failed", [])}
    for dt, verdict in expected.items():
        content = lab.path(dt).read_bytes()
        if isinstance(verdict, int):
            assert failed.get(dt, "not refused").startswith(f":{verdict}: "), content
        elif verdict and SMALLEST <= verdict[1] <= LARGEST:
            assert lab_row(lab, dt) == (*verdict, "alice"), (content, failed.get(dt))
        elif verdict:
            assert dt in failed, content


def lab_row(lab: Lab, dt: str) -> tuple[int, int, str] | None:
    """What `daily` holds for a date."""
    rows = lab.query("SELECT orders, amount, owner FROM daily WHERE dt = ?", dt)
    return rows[0] if rows else None


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The content with one byte, or a few, changed, gone, added or repeated."""
    at = chance.randrange(len(content))
    some = content[at : at + chance.randint(1, 12)]
    byte = chance.choice([bytes([chance.randrange(256)]), *(bytes([b]) for b in b'"{}:, \\\n\r0123456789-eE.tru')])
    return chance.choice(
        [
            content[:at] + byte + content[at + 1 :],
            content[:at] + content[at + 1 :],
            content[:at] + byte + content[at:],
            content[:at] + some + content[at:],
            content[:at] + content[at + len(some) :],
            content[:at],
        ]
    )
