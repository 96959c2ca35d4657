from __future__ import annotations

import re

from tests.world import CHECKOUT


def test_every_test_that_the_page_names_is_there() -> None:
    page = (CHECKOUT / "docs/reliability.md").read_text()
    sources = "".join(path.read_text() for path in (CHECKOUT / "tests").rglob("test_*.py"))

    named = set(re.findall(r"`(test_\w+)`", page))

    assert len(named) > 30
    assert [name for name in sorted(named) if f"def {name}(" not in sources] == []


def test_the_page_counts_the_corpus_right() -> None:
    [count] = re.findall(r"a corpus of (\d+) files", (CHECKOUT / "docs/reliability.md").read_text())

    assert int(count) == len(list((CHECKOUT / "tests/faults/corpus").iterdir()))
