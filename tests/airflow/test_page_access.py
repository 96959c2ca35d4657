"""Rights by DAG: what a user sees and may change who may read or edit some of the DAGs that write a dataset."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest


class Manager:
    """An auth manager that lets a user read and edit the DAGs that it names."""

    def __init__(self, reads: set[str], edits: set[str], *, connections: bool = False) -> None:
        self._allowed = {"GET": reads | edits, "PUT": edits}
        self._connections = connections

    def is_authorized_dag(self, *, method: str, details: Any, user: object) -> bool:  # noqa: ARG002  as Airflow calls it
        return details.id in self._allowed[method]

    def is_authorized_connection(self, *, method: str, details: Any, user: object) -> bool:  # noqa: ARG002  likewise
        return method == "PUT" and self._connections


@pytest.fixture(scope="module")
def access() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Airflow's API server imports warns of its own test client
        from backfill_airflow.page import access
    return access


def of(access: Any, monkeypatch: pytest.MonkeyPatch, manager: Manager, *dag_ids: str, **user: Any) -> Any:
    monkeypatch.setattr(access, "get_auth_manager", lambda: manager)
    writers = [SimpleNamespace(dag_id=dag_id) for dag_id in dag_ids]
    return access.Access(SimpleNamespace(get_name=lambda: "anna", **user), "backfill_default", writers, None)


def test_who_may_read_one_dag_may_look(access: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rights = of(access, monkeypatch, Manager({"shop"}, set()), "shop", "secret")

    assert rights.may_read()
    assert (rights.may_see("shop"), rights.may_see("secret")) == (True, False)
    assert rights.why_not() == "You may look: only who may edit the DAG shop may change it"
    assert not of(access, monkeypatch, Manager({"another"}, {"another"}), "shop", "secret").may_read()


def test_who_may_edit_all_of_them_may_change_it_and_a_dag_that_is_hidden_is_not_named(
    access: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of(access, monkeypatch, Manager(set(), {"shop", "late"}), "shop", "late").why_not() is None
    why = of(access, monkeypatch, Manager(set(), {"shop"}), "shop", "secret").why_not()
    assert why == "You may look: only who may edit all DAGs that write it may change it"


@pytest.mark.parametrize(
    ("user", "connections", "allowed"),
    [
        ({"role": "admin"}, False, True),
        ({"role": "ADMIN"}, False, True),
        ({"role": "op"}, True, False),
        ({"role": None, "roles": [SimpleNamespace(name="Admin")]}, False, True),
        ({"roles": [SimpleNamespace(name="Op")]}, True, False),
        ({}, True, True),
        ({}, False, False),
    ],
)
def test_without_a_dag_an_administrator_alone_may_do_both(
    access: Any, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], connections: bool, allowed: bool
) -> None:
    rights = of(access, monkeypatch, Manager(set(), set(), connections=connections), **user)

    assert rights.may_read() is allowed
    assert (rights.why_not() is None) is allowed
