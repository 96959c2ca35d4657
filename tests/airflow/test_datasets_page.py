"""The steps of docs/datasets.md, "In Airflow": each is what the page says, and is run here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_stand import ROOT
from backfill_airflow.compat import AirflowFailException
from test_examples import DAY, FORM, NEXT, Examples, made_examples, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP = re.compile(r"```(?:python|sql)\n(?:#|--) (?P<name>[a-z_.]+)\n(?P<text>.*?)```", re.DOTALL)


@pytest.fixture
def page(postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examples]:
    """The page's files in a DAGs folder."""
    folder = tmp_path / "dags"
    folder.mkdir()
    for step in STEP.finditer((ROOT / "docs" / "datasets.md").read_text()):
        (folder / step["name"]).write_text(step["text"])
    yield from made_examples(postgres, folder, monkeypatch)


def test_each_step_of_the_page_is_a_file_that_airflow_takes(page: Examples) -> None:
    six = {"orders", *(f"orders.{way}" for way in ("range", "seal", "unseal", "amend", "late"))}

    assert set(page.bag.dags) == {"orders_plain", "orders_take_on", "orders_guarded", "orders_by_function", *six}


def test_the_page_leads_from_the_plain_dag_to_a_guarded_one(page: Examples) -> None:
    for dt in (DAY, NEXT):
        page.order(dt, 3)
    page.execute("orders_plain", "load")
    assert page.published() == {DAY: (1, 3)}

    with pytest.raises(AirflowFailException, match="nobody of ours published"):
        page.execute("orders_guarded", "load")
    assert not [one for one in page.execute("orders_take_on", "check") if one["refuses"]]
    adopted = page.execute("orders_take_on", "adopt", FORM)
    assert [(one["key"], one["after"]["rows"]) for one in adopted["published"]] == [(DAY, 1), (NEXT, 0)]

    page.order(DAY, 4)
    page.execute("orders_guarded", "load")
    assert page.published() == {DAY: (2, 7)}
    assert page.execute("orders", "replace")["quiet"] == [DAY]

    page.execute("orders.range", "replace", FORM)
    assert page.published() == {DAY: (2, 7), NEXT: (1, 3)}
    page.execute("orders.seal", "seal", FORM)
    page.order(DAY, 5)
    for dag_id in ("orders_guarded", "orders_by_function"):
        assert page.execute(dag_id, "load")["skipped"] == [[DAY, "sealed"]]
    page.execute("orders.amend", "amend", {"date": DAY, "reason": "one came late"})
    assert statement()[0]["corrected"]["amount"] == "12"

    page.execute("orders.unseal", "unseal", FORM)
    page.execute("orders_by_function", "load")
    assert page.published() == {DAY: (3, 12), NEXT: (1, 3)}


def test_what_the_plain_dag_still_writes_is_found(page: Examples) -> None:
    page.order(DAY, 3)
    page.execute("orders_guarded", "load")
    page.order(DAY, 4)
    page.execute("orders_plain", "load")

    with pytest.raises(AirflowFailException, match="somebody wrote past us"):
        page.execute("orders_guarded", "load")

    assert page.published() == {DAY: (2, 7)}
