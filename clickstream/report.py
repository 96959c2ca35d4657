"""The reports of `check` and `chain-check` as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def check_report(answer: Mapping[str, Any]) -> str:
    """Return a table of the topics, and the faults."""
    rows = [
        (
            topic,
            f"{found['records']:,}",
            f"{found['expected_records']:,}",
            found["checksum"],
            found["expected_checksum"],
        )
        for topic, found in answer["topics"].items()
    ]
    return "\n".join(
        [
            f"History {answer['t0']} … {answer['t_end']}",
            "",
            *_table(("topic", "records", "manifest", "checksum", "manifest"), rows),
            "",
            *_verdict(len(answer["faults"]), answer["faults"]),
        ]
    )


def chain_report(answer: Mapping[str, Any]) -> str:
    """Return a table of the boundaries, and the faults, each with its boundary."""
    rows = [
        (
            row["boundary"],
            f"{row['page_views']:,}",
            f"{row['visits_born']:,}",
            f"{row['visits_survived']:,}",
            f"{row['unpaired']:,}",
            f"{row['changed']:,}",
        )
        for row in answer["boundaries"]
    ]
    faults = [f"{fault['boundary']}: {fault['fault']}" for fault in answer["faults"]]
    return "\n".join(
        [
            *_table(("boundary", "page views after", "visits born", "survived it", "unpaired", "changed"), rows),
            "",
            *_verdict(answer["faults_found"], faults),
        ]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        first, *rest = row
        yield "  ".join(
            [
                first.ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)),
            ]
        )


def _verdict(found: int, listed: Sequence[str]) -> Iterable[str]:
    if not found:
        yield "No faults."
        return
    yield f"Faults: {found:,}" + (f", the first {len(listed):,} of them:" if found > len(listed) else "")
    yield from (f"- {fault}" for fault in listed)
