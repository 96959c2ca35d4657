"""Which order_ids occur more than once in a range, within a day and across days, in memory that doesn't grow with it.

The ids go to temporary files by their hash, so that all lines of an id are in one of them, and each is looked at alone.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import tempfile
from collections import Counter
from contextlib import ExitStack

from backfill_core.counting.lines import LineError, order_id_of
from backfill_core.counting.pieces import MAX_LINE, LineTooLongError, open_file, pieces
from backfill_core.errors import PartitionError, SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from backfill_core import answers
    from backfill_core.events import EventFolder
    from backfill_core.partition import DateRange

NAMED = 1000
"""How many order_ids an answer names; of more it has the number alone."""
BUCKET = 1 << 24
"""The bytes of sources whose ids share a temporary file: some ten times as much memory while it is looked at."""
MOST_BUCKETS = 256
PIECE = 1 << 20

_AS_DUMPED = re.compile(rb'\{"order_id": "([^"\\\x00-\x1f]*)"').match


def duplicates(source: EventFolder, dates: DateRange) -> answers.DuplicatesAnswer:
    """Find the order_ids of the range that occur more than once; see `Backfill.duplicates`."""
    source.check()
    found = {dt: size for dt in dates if (size := _size(source, dt)) is not None}
    answer: answers.DuplicatesAnswer = {
        "first": dates.first.isoformat(),
        "last": dates.last.isoformat(),
        "orders": 0,
        "order_ids": 0,
        "within_a_day": 0,
        "across_days": 0,
        "duplicates": [],
        "failed": [],
    }
    number = min(MOST_BUCKETS, sum(found.values()) // BUCKET + 1)
    try:
        with ExitStack() as opened:
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="backfill-duplicates-"))
            buckets = [opened.enter_context(open(os.path.join(folder, str(bucket)), "w+b")) for bucket in range(number)]
            for dt in found:
                try:
                    answer["orders"] += _scatter(source, dt, buckets)
                except PartitionError as error:
                    answer["failed"].append([dt, str(error)])
            named: list[answers.DuplicateOrder] = []
            for bucket in buckets:
                more = list(_more_than_once(bucket))
                answer["order_ids"] += len(more)
                answer["within_a_day"] += sum(any(times != 1 for _, times in order["dts"]) for order in more)
                answer["across_days"] += sum(len(order["dts"]) > 1 for order in more)
                named = heapq.nsmallest(NAMED, [*named, *more], key=_place)
            answer["duplicates"] = named
    except OSError as error:
        raise SourceError(
            f"the order_ids can't be kept in {tempfile.gettempdir()} meanwhile: {error.strerror}; set TMPDIR to a"
            " folder with room"
        ) from None
    return answer


def _place(order: answers.DuplicateOrder) -> tuple[str, str]:
    return str(order["dts"][0][0]), order["order_id"]


def _size(source: EventFolder, dt: str) -> int | None:
    """Return the size of the partition's file, None where there is none that can be read now."""
    try:
        found = source.fingerprint(dt)
    except PartitionError:
        return 0  # it is told when it is read
    return found and found.size


def _scatter(source: EventFolder, dt: str, buckets: Sequence[IO[bytes]]) -> int:
    """Put each order_id of a partition, with the date, into the bucket of its hash; return the number of orders.

    Raises:
        PartitionError: the file, or an order_id of it, can't be read, or it changed meanwhile.
    """
    found = source.fingerprint(dt)
    if found is None:
        return 0
    prefix, many, orders = dt.encode() + b" ", len(buckets), 0
    for order_id in _order_ids(source.file(dt), found.size):
        buckets[hash(order_id) % many].write(prefix + order_id + b"\n")
        orders += 1
    if source.fingerprint(dt) != found:
        raise source.keeps_changing(dt)
    return orders


def _order_ids(path: str, size: int) -> Iterator[bytes]:
    passed = 0
    try:
        with open_file(path) as file:
            for piece in pieces(file, 0, size, PIECE):
                for line in piece.lines():
                    passed += 1
                    dumped = _AS_DUMPED(line)
                    order_id = dumped[1] if dumped else _order_id(line)
                    if order_id is not None:
                        yield order_id
    except LineError as error:
        raise PartitionError(f"{path}:{passed}: {error}") from None
    except LineTooLongError:
        raise PartitionError(f"{path}:{passed + 1}: the line is longer than {MAX_LINE} bytes") from None
    except OSError as error:
        raise PartitionError(f"{path}: {error.strerror}") from None


def _order_id(line: bytes) -> bytes | None:
    """Return the order_id as a JSON string has it without needless escapes; None for a blank line."""
    order_id = order_id_of(line)
    return None if order_id is None else json.dumps(order_id, ensure_ascii=False)[1:-1].encode(errors="surrogatepass")


def _more_than_once(bucket: IO[bytes]) -> Iterator[answers.DuplicateOrder]:
    bucket.seek(0)
    once: dict[bytes, bytes] = {}
    more: dict[bytes, Counter[bytes]] = {}
    for record in bucket:
        dt, order_id = record[:10], record[11:-1]
        if order_id in more:
            more[order_id][dt] += 1
        elif order_id in once:
            more[order_id] = Counter((once[order_id], dt))
        else:
            once[order_id] = dt
    for order_id, dts in more.items():
        yield {
            "order_id": json.loads(b'"' + order_id + b'"'),
            "dts": [[dt.decode(), times] for dt, times in sorted(dts.items())],
        }
