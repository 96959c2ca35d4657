"""The way to the store and the events, by an Airflow connection or the runner's own variables."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from backfill_airflow.compat import AirflowNotFoundException, BaseHook
from backfill_airflow.provider import CONNECTION_FORM, CONNECTION_TYPE
from backfill_core import Backfill, BackfillError, EventFolder, Settings, UsageError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backfill_airflow.compat import Connection
    from backfill_core.ledger import Ledger

DEFAULT_CONN_ID = "backfill_default"


class BackfillHook(BaseHook):
    """Opens the state store and the events folder that an Airflow connection names.

    The connection's host is the store (a SQLite path, or a `postgresql://` URL); login, password and port, where given,
    go into the URL. Its schema is the events folder, which only the runner's `daily` needs: datasets do without. The
    default connection need not exist: then the runner's variables `BACKFILL_DB`, `BACKFILL_EVENTS` and `BACKFILL_HOME`
    name both. Any other one must, since a typing error in its name should not lead to another store.

    :param conn_id: the connection of type `backfill`.
    """

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONNECTION_TYPE
    hook_name = "Backfill store"

    def __init__(self, conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.conn_id = conn_id

    def settings(self) -> Settings:
        """Return where the store and the events are.

        Raises:
            UsageError: the connection names no store.
            AirflowNotFoundException: there is no such connection, and it is not the default one.
        """
        try:
            return settings_of(self.get_connection(self.conn_id))
        except AirflowNotFoundException:
            if self.conn_id != DEFAULT_CONN_ID:
                raise
            return Settings.from_env(os.environ)

    async def asettings(self) -> Settings:
        """Return the same as `settings`, for a trigger."""
        from backfill_airflow.compat import get_async_connection

        try:
            return settings_of(await get_async_connection(self.conn_id))
        except AirflowNotFoundException:
            if self.conn_id != DEFAULT_CONN_ID:
                raise
            return Settings.from_env(os.environ)

    @contextmanager
    def backfill(self) -> Iterator[Backfill]:
        """Open the store for as long as the block lasts.

        Raises:
            NoStoreError: there is no store; it is not created by asking.
            StoreError: it can't be opened.
        """
        with opened(self.settings()) as backfill:
            yield backfill

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """Open the ledger of datasets, which is in the store, for as long as the block lasts; make it if there is none.

        Raises:
            StoreError: it can't be opened.
        """
        with opened_ledger(self.settings()) as ledger:
            yield ledger

    def test_connection(self) -> tuple[bool, str]:
        """Say whether the store can be opened and the events read: the button in the connection's form."""
        try:
            settings = self.settings()
            return True, _look_over(settings)
        except BackfillError as error:
            return False, str(error)

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the connection's form for Airflow 2.11; later lines read it in the provider's description."""
        return {key.replace("-", "_"): value for key, value in CONNECTION_FORM.items()}


def _look_over(settings: Settings) -> str:
    """Say what is in the store, and where the events are.

    Raises:
        BackfillError: one of them can't be read.
    """
    if not settings.events:
        with opened_ledger(settings) as ledger:
            datasets = len(ledger.counts())
        return f"{settings.db} knows {datasets} datasets; no events folder: datasets, claims and seals only"
    with opened(settings) as backfill:
        known = len(backfill.status()["partitions"])
    EventFolder(settings.events).check()
    return f"{settings.db} knows {known} dates; the events are in {settings.events}"


@contextmanager
def opened(settings: Settings) -> Iterator[Backfill]:
    """Open the store that the settings name for as long as the block lasts."""
    events = EventFolder(settings.events, settings.engine, settings.workers) if settings.events else None
    with open_store(settings.db) as store:
        yield Backfill(store, events)


@contextmanager
def opened_ledger(settings: Settings) -> Iterator[Ledger]:
    """Open the ledger of datasets in the store that the settings name for as long as the block lasts."""
    from backfill_core.ledger.opening import open_ledger

    with open_ledger(settings.db) as ledger:
        yield ledger


def settings_of(connection: Connection) -> Settings:
    """Return the places that a connection names, `events` empty if none; the runner's variables say how to count.

    Raises:
        UsageError: it names no store.
    """
    if not connection.host:
        raise UsageError(
            f"the connection {connection.conn_id} names no state store (its host); fill it in under Admin, Connections"
        )
    counting = Settings.from_env(os.environ)
    return Settings(_named_by(connection.host, connection), connection.schema or "", counting.engine, counting.workers)


def _named_by(store: str, connection: Connection) -> str:
    """Return the store's URL with the login and port of the connection where it has none; a path stays as it is."""
    url = urlsplit(store)
    if not url.scheme:
        return store
    place = url.netloc
    if connection.port and url.port is None:
        place = f"{place}:{connection.port}"
    if connection.login and "@" not in place:
        secret = f":{quote(connection.password, safe='')}" if connection.password else ""
        place = f"{quote(connection.login, safe='')}{secret}@{place}"
    return url._replace(netloc=place).geturl()
