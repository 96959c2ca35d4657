"""One line of a partition file, read strictly. What this module accepts is an order; nothing else is."""

from __future__ import annotations

import json

from backfill_core.guard import fits_64_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BEYOND = 10**20  # stands for any integer of more than 20 characters, which 64 bits can't hold


class LineError(Exception):
    """One line breaks the shape; the message says what is wrong, the caller knows where."""


def amount_of(line: bytes, dt: str) -> int | None:
    """Return the amount of the order on one line, without its newline; None for a blank line.

    The line is a JSON object with at least `order_id` (string), `dt` (the partition's), `amount` (an integer
    of at most 64 bits) and `status` (`paid`, or `refund` with a negative amount); no key occurs twice.

    Raises:
        LineError: the line is anything else.
    """
    order = _object(line)
    if order is None:
        return None
    for field in ("order_id", "dt", "amount", "status"):
        if field not in order:
            raise LineError(f"the field {field} is missing")
    amount, status = order["amount"], order["status"]
    if not isinstance(order["order_id"], str):
        raise LineError(f"order_id is not a string: {_shown(order['order_id'])}")
    if order["dt"] != dt:
        raise LineError(f"dt is {_shown(order['dt'])}, and this is the partition of {dt}")
    if type(amount) is not int:
        raise LineError(f"amount is not an integer: {_shown(amount)}")
    if not fits_64_bits(amount):
        raise LineError("amount is beyond 64 bits")
    if status not in ("paid", "refund"):
        raise LineError(f"status is neither paid nor refund: {_shown(status)}")
    if status == "refund" and amount >= 0:
        raise LineError(f"the amount of a refund is not negative: {amount}")
    return amount


def order_id_of(line: bytes) -> str | None:
    """Return the order_id on one line, without its newline, whatever else is there; None for a blank line.

    Raises:
        LineError: the line is no JSON object with a string of that name.
    """
    order = _object(line)
    if order is None:
        return None
    if not isinstance(order.get("order_id"), str):
        raise LineError("order_id is missing or no string")
    return str(order["order_id"])


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        text = line.decode("utf-8").strip(" \t\r")
    except UnicodeDecodeError as error:
        raise LineError(f"byte {error.start + 1} of the line is not UTF-8") from None
    if not text:
        return None
    try:
        value, end = _scan(text, 0)
    except StopIteration as missing:
        if missing.value == 0:
            raise LineError(f"not a JSON object: {_shown(text)}") from None
        raise LineError(f"not JSON: no value at character {missing.value + 1}") from None
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON: {error.msg.removesuffix(' starting at')} at character {error.pos + 1}") from None
    except RecursionError:
        raise LineError("nested too deeply") from None
    if end != len(text):
        raise LineError(f"more than one JSON value, the next at character {end + 1}")
    if not isinstance(value, dict):
        raise LineError(f"not a JSON object: {_shown(text)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise LineError(f"the key {_shown(next(k for k in keys if keys.count(k) > 1))} occurs twice")
    return found


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= 20 else _BEYOND


def _no_constant(name: str) -> None:
    raise LineError(f"{name} is not JSON")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return ascii(text if len(text) <= 60 else text[:59] + "…")


# The scanner itself, with `end == len(text)` as the test for a whole line, is exact and three times as fast as
# json.loads, which reaches it through three Python calls.
_scan = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]
