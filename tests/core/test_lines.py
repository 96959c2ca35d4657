from __future__ import annotations

import pytest

from backfill_core.counting.lines import LineError, amount_of

DT = "2026-02-01"


def line(**changed: str) -> bytes:
    """Return a good line, with some of its values replaced by other JSON."""
    fields = {"order_id": '"a"', "dt": f'"{DT}"', "amount": "5", "status": '"paid"'} | changed
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}").encode()


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (line(), 5),
        (line(amount="0"), 0),
        (line(amount="-0"), 0),
        (line(amount="-7"), -7),
        (line(amount="-7", status='"refund"'), -7),
        (line(amount=str(2**63 - 1)), 2**63 - 1),
        (line(amount=str(-(2**63)), status='"refund"'), -(2**63)),
        (line(order_id='""'), 5),
        (line(order_id='"a\u2028b"'), 5),
        (line(order_id='"\\ud800"'), 5),
        (line(extra='[1.5, {"deep": null}]'), 5),
        (line(extra="1" * 5000), 5),
        (b'{"status":"paid","amount":5,"dt":"2026-02-01","order_id":"a"}', 5),
        (b'{"order_id":"a","dt":"2026\\u002d02-01","am\\u006funt":5,"status":"paid"}', 5),
        (b" \t" + line() + b" \t\r", 5),
        (b"", None),
        (b" \t\r", None),
    ],
)
def test_what_writers_emit_is_an_order_and_a_blank_line_is_none(text: bytes, amount: int | None) -> None:
    assert amount_of(text, DT) == amount


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"[]", "not a JSON object"),
        (b"5", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"hello", "not a JSON object"),
        (line()[:-1], "not JSON"),
        (line()[:20], "not JSON"),
        (line() + line(), "more than one JSON value"),
        (line() + b",", "more than one JSON value"),
        (b"\xef\xbb\xbf" + line(), "not a JSON object"),
        (b"\x0b" + line(), "not a JSON object"),
        (b"\xc2\xa0", "not a JSON object"),
        (line(order_id='"a\x01"'), "not JSON"),
        (line(order_id='"\\x"'), "not JSON"),
        (
            b'{"order_id": "\xff", "dt": "2026-02-01", "amount": 5, "status": "paid"}',
            "byte 15 of the line is not UTF-8",
        ),
        (b'{"order_id": "\xed\xa0\x80", "dt": "2026-02-01", "amount": 5, "status": "paid"}', "not UTF-8"),
        (b'{"dt": "2026-02-01", "amount": 5, "status": "paid"}', "order_id is missing"),
        (b'{"order_id": "a", "amount": 5, "status": "paid"}', "dt is missing"),
        (b'{"order_id": "a", "dt": "2026-02-01", "status": "paid"}', "amount is missing"),
        (b'{"order_id": "a", "dt": "2026-02-01", "amount": 5}', "status is missing"),
        (line(order_id="5"), "order_id is not a string"),
        (line(order_id="null"), "order_id is not a string"),
        (line(dt='"2026-02-02"'), "this is the partition of 2026-02-01"),
        (line(dt="20260201"), "this is the partition of 2026-02-01"),
        (line(amount="5.0"), "amount is not an integer"),
        (line(amount="1e2"), "amount is not an integer"),
        (line(amount="true"), "amount is not an integer"),
        (line(amount='"5"'), "amount is not an integer"),
        (line(amount="null"), "amount is not an integer"),
        (line(amount="05"), "not JSON"),
        (line(amount="+5"), "not JSON"),
        (line(amount="NaN"), "NaN is not JSON"),
        (line(amount="-Infinity"), "-Infinity is not JSON"),
        (line(extra="Infinity"), "Infinity is not JSON"),
        (line(amount=str(2**63)), "beyond 64 bits"),
        (line(amount=str(-(2**63) - 1)), "beyond 64 bits"),
        (line(amount="9" * 5000), "beyond 64 bits"),
        (line(status='"Paid"'), "neither paid nor refund"),
        (line(status='["paid"]'), "neither paid nor refund"),
        (line(status='"refund"'), "refund is not negative"),
        (line(status='"refund"', amount="0"), "refund is not negative"),
        (line(status='"refund"', amount="-0"), "refund is not negative"),
        (line()[:-1] + b', "amount": 6}', "the key 'amount' occurs twice"),
        (line(extra='{"a": 1, "a": 2}'), "the key 'a' occurs twice"),
        (line()[:-1] + b', "am\\u006funt": 6}', "the key 'amount' occurs twice"),
        (line(extra="[" * 100_000), "nested too deeply"),
    ],
)
def test_what_breaks_the_shape_is_refused_with_its_fault(text: bytes, fault: str) -> None:
    with pytest.raises(LineError, match=fault):
        amount_of(text, DT)


def test_a_fault_is_told_in_one_short_printable_line() -> None:
    with pytest.raises(LineError) as told:
        amount_of(line(status='"' + "\u202e🙂" * 1000 + '"'), DT)

    assert len(str(told.value)) < 600
    assert str(told.value).isascii()
