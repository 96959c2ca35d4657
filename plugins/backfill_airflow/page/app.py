"""The API behind the page of partitions: what it answers, to whom, and in which words it refuses.

Each answer needs a login, and each change a header that another site's page can't send. Backfills, seals, unseals,
corrections and plans are runs of DAGs: who asks for them asks Airflow's own API.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep  # noqa: TC002  FastAPI reads it
from airflow.api_fastapi.core_api.security import GetUserDep  # noqa: TC002  likewise
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from backfill_airflow.compat import AirflowNotFoundException
from backfill_airflow.hook import DEFAULT_CONN_ID, BackfillHook, opened_ledger
from backfill_airflow.page import BUNDLE, reading
from backfill_airflow.page.access import Access
from backfill_airflow.page.dags import DAILY_TABLE, ROLES, Place, Writer, Writers
from backfill_airflow.page.ledgers import Found, Ledgers, looking
from backfill_core import DateRange
from backfill_core.claims import Caller
from backfill_core.errors import BackfillError, NoStoreError, RefusedError, StoreError, UsageError
from backfill_core.guarded import new_id
from backfill_core.keys import DAY, NONE, WHOLE, keys_between, parse_key
from backfill_core.ledger import CLAIM, RELEASE
from backfill_core.partition import check_text
from backfill_core.protocol import reserving
from backfill_core.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backfill_core import Settings
    from backfill_core.ledger import Counts, Entry
    from backfill_core.ledger.ledger import SqlLedger
    from backfill_core.ledger.page import Page

log = logging.getLogger(__name__)
MOST_KEYS = 40_000
"""How many partitions one request may name: more than a hundred years of days."""
UNREADABLE = "the ledger can't be reached or read; the API server's log says why"
_writers = Writers()
_ledgers = Ledgers()


class Asked(BaseModel):
    """Which partitions, as spans of a first and a last key, both inclusive; and why."""

    model_config = ConfigDict(extra="forbid")

    spans: list[tuple[str, str]] = Field(min_length=1, max_length=1_000)
    reason: str = Field(max_length=2_000)


class One:
    """A dataset that a user may look at: its ledger, those of its DAGs that the user may read, and what it may do."""

    def __init__(self, place: Place, writers: Sequence[Writer], access: Access, shown: str) -> None:
        self.place = place
        self.writers = writers
        self.access = access
        self.shown = shown

    @property
    def is_daily(self) -> bool:
        """Whether it is the runner's table."""
        return self.place.dataset == DAILY_TABLE

    @property
    def settings(self) -> Settings:
        """Where its ledger is."""
        return BackfillHook(self.place.conn_id).settings()

    def dag_of(self, role: str) -> str | None:
        """Return the DAG that a person would start for that."""
        return next((writer.dag_id for writer in self.writers if role in writer.roles), None)

    def dags(self) -> dict[str, Any]:
        """Return the DAG of each role, and the one whose form can only plan."""
        found: dict[str, Any] = {role: self.dag_of(role) for role in ROLES}
        plans = [{"dag_id": writer.dag_id, "task_id": writer.plan} for writer in self.writers if writer.plan]
        return {**found, "plan": plans[0] if plans else None}

    @property
    def paused(self) -> list[str]:
        """The DAGs of which no run would start."""
        return [writer.dag_id for writer in self.writers if writer.paused]

    @property
    def is_scheduled(self) -> bool:
        """Whether a schedule writes it day by day."""
        return self.dag_of("daily") is not None


class Datasets:
    """All datasets, by the name that the page shows, and what a user may do with each.

    A dataset is there when a DAG writes it, or a ledger that a DAG or the default connection leads to knows it. The
    name is the dataset's; where two ledgers have one of that name, the connection is added to the second's.
    """

    def __init__(self, user: GetUserDep, session: SessionDep) -> None:
        self._user, self._session = user, session
        self._writers = _writers.read(session)
        self._zones: dict[Place, str] = {}
        self._failures: dict[str, Exception] = {}
        self.has_store = False
        named = {place.conn_id for place in self._writers}
        places = set(self._writers)
        for conn_id in sorted({DEFAULT_CONN_ID, *named}):
            zones, failure = _look_at(conn_id)
            if failure is None:
                self.has_store = True
                self._zones |= {Place(conn_id, name): zone for name, zone in zones.items()}
                places.add(Place(conn_id, DAILY_TABLE))
            elif conn_id in named or not isinstance(failure, NoStoreError):
                self._failures[conn_id] = failure
        self._places: dict[str, Place] = {}
        places |= {*self._zones}
        for place in sorted(places, key=lambda one: (one.dataset, one.conn_id != DEFAULT_CONN_ID, one.conn_id)):
            shown = place.dataset if place.dataset not in self._places else f"{place.dataset} ({place.conn_id})"
            self._places[shown] = place

    def find(self, shown: str) -> One | None:
        """Return a dataset that the user may look at, None where there is none."""
        place = self._places.get(shown)
        if place is None:
            return None
        writers = self._writers.get(place, [])
        access = Access(self._user, place.conn_id, writers, self._session)
        if not access.may_read():
            return None
        if place.conn_id in self._failures:
            raise HTTPException(503, self._why(place.conn_id, access))
        return One(place, [writer for writer in writers if access.may_see(writer.dag_id)], access, shown)

    def failures(self) -> list[str]:
        """Say which ledgers don't answer, to who may look at a dataset of theirs."""
        told = []
        for conn_id in self._failures:
            writers = [writer for place, found in self._writers.items() if place.conn_id == conn_id for writer in found]
            access = Access(self._user, conn_id, writers, self._session)
            if access.may_read():
                told.append(f"{conn_id}: {self._why(conn_id, access)}")
        return told

    def _why(self, conn_id: str, access: Access) -> str:
        """Say why a ledger doesn't answer; where it is is an administrator's to know, as Airflow's connections are."""
        return str(self._failures[conn_id]) if access.is_admin() else UNREADABLE

    def overviews(self, dag_id: str | None) -> list[dict[str, Any]]:
        """Tell of all that the user may look at, or of those that a DAG writes; of an unused `daily` say nothing."""
        told, counts = [], self._counts()
        for shown, place in self._places.items():
            if place.conn_id in self._failures or (one := self.find(shown)) is None:
                continue
            dags = [writer.dag_id for writer in one.writers]
            if dag_id is None or dag_id in dags:
                about = self._overview(one, counts.get(place))
                if dags or about != reading.UNUSED:
                    told.append({"dataset": shown, "dags": dags, **about})
        return told

    def _counts(self) -> dict[Place, Counts]:
        found: dict[Place, Counts] = {}
        for conn_id in {place.conn_id for place in self._zones}:
            try:
                with looking(BackfillHook(conn_id).settings().db) as ledger:
                    found |= {Place(conn_id, one.dataset): one for one in (ledger.counts() if ledger else ())}
            except BackfillError as error:
                self._failures[conn_id] = error
        return found

    def _overview(self, one: One, counts: Counts | None) -> dict[str, Any]:
        until = reading.yesterday(self._zones.get(one.place, "UTC")) if one.is_scheduled else None
        if one.is_daily:
            with open_store(one.settings.db) as store:
                return reading.Daily.read(store).overview(until)
        return reading.UNWRITTEN if counts is None else reading.overview(counts, until)


def _look_at(conn_id: str) -> Found:
    try:
        return _ledgers.find(BackfillHook(conn_id).settings().db)
    except (BackfillError, AirflowNotFoundException) as error:
        return Found({}, error)


def _seen(name: str, known: Annotated[Datasets, Depends()]) -> One:
    """Return a dataset that the user may look at. Of others it isn't said whether they are there."""
    one = known.find(name)
    if one is None:
        raise HTTPException(404, f"there is no dataset {name!r} that you may look at")
    return one


def _own_header(x_backfill: Annotated[str | None, Header()] = None) -> None:
    if x_backfill is None:
        raise HTTPException(403, "a change needs the header X-Backfill; with it no other site's page can ask for one")


def _changed(one: Annotated[One, Depends(_seen)]) -> One:
    """Return a dataset that the user may change."""
    if (why_not := one.access.why_not()) is not None:
        raise HTTPException(403, why_not)
    return one


Seen = Annotated[One, Depends(_seen)]
Changed = Annotated[One, Depends(_changed)]
app = FastAPI(title="Partitions", docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/partitions.js")
def bundle(user: GetUserDep) -> FileResponse:  # noqa: ARG001  it is asked for its login
    """Return the page itself."""
    if not BUNDLE.exists():
        raise HTTPException(404, "the page was not built; `make page` does that")
    return FileResponse(BUNDLE, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


@app.get("/datasets")
def datasets(known: Annotated[Datasets, Depends()], dag_id: str | None = None) -> Response:
    """Tell of all datasets at a glance, or of those that a DAG writes."""
    told = known.overviews(dag_id)
    failures = known.failures()
    if not told and not failures and not known.has_store:
        raise NoStoreError("No connection of the type “Backfill store” leads to a store yet.")
    return _json({"datasets": told, "failures": failures})


@app.get("/datasets/{name:path}/partitions/{key:path}")
def partition(one: Seen, key: str) -> Response:
    """Tell one partition with its history."""
    with looking(one.settings.db) as ledger:
        if not one.is_daily:
            if ledger is None:
                raise NoStoreError("there is no ledger yet; the first write of a dataset makes it")
            _check_key(ledger, one.place.dataset, key)
            return _json(reading.partition(ledger, one.place.dataset, key))
        key = parse_key(key)
        history: Sequence[Entry] = [] if ledger is None else ledger.history(DAILY_TABLE, key, key)
    with open_store(one.settings.db) as store:
        return _json(reading.Daily.read(store, DateRange.parse(key, key)).partition(key, history))


@app.get("/datasets/{name:path}")
def dataset(one: Seen) -> Response:
    """Tell all partitions of a dataset."""
    if one.is_daily:
        with open_store(one.settings.db) as store:
            told = reading.Daily.read(store).told(until_yesterday=one.is_scheduled)
    else:
        with looking(one.settings.db) as ledger:
            told = reading.dataset(ledger, one.place.dataset, until_yesterday=one.is_scheduled)
    why_not = one.access.why_not()
    about = {"dags": one.dags(), "paused": one.paused, "user": one.access.name, "why_not": why_not}
    return _json({"dataset": one.shown, **told, **about})


def _change(event: str) -> list[Any]:
    """Return what is asked of a change, in this order: our header, the permission, and then Airflow's audit log."""
    return [Depends(_own_header), Depends(_changed), Depends(action_logging(event))]


@app.post("/datasets/{name:path}/claim", dependencies=_change("backfill_claim"))
def claim(one: Changed, asked: Asked) -> dict[str, str]:
    """Reserve partitions in the user's name: all of them, or none."""
    keys, reason, name = _keys(one, asked), check_text("reason", asked.reason), check_text("owner", one.access.name)
    if one.is_daily:
        _claim_daily(one, keys, name, reason)
    else:
        with opened_ledger(one.settings) as ledger:
            made = reserving.reserve(
                ledger, one.place.dataset, new_id(), keys, Caller("", person=name), reason, whole=True
            )
        if made.denied:
            _refuse(made.denied)
    return {"words": f"{_counted(keys)} reserved in the name of {name}"}


@app.post("/datasets/{name:path}/release", dependencies=_change("backfill_release"))
def release(one: Changed, asked: Asked) -> dict[str, str]:
    """Give back whatever claims are on the partitions, whoever holds them."""
    keys, reason, name = _keys(one, asked), check_text("reason", asked.reason), one.access.name
    if one.is_daily:
        freed = _release_daily(one, keys, name, reason)
    else:
        with opened_ledger(one.settings) as ledger:
            wanted = set(keys)
            claims = [found for found in ledger.claims(one.place.dataset, keys[0], keys[-1]) if found.key in wanted]
            ids = {found.id for found in claims}
            freed = reserving.release(ledger, one.place.dataset, {found.key for found in claims}, ids, name, reason)
    if not freed:
        raise HTTPException(409, "nobody holds any of it; nothing was changed")
    return {"words": f"{_counted(freed)} free again"}


def _claim_daily(one: One, keys: list[str], name: str, reason: str) -> None:
    wanted = DateRange.parse(keys[0], keys[-1])
    with open_store(one.settings.db) as store, store.writing() as tables:
        holders = tables.holders(wanted)
        denied = [(key, holders[key]) for key in keys if holders.get(key, name) != name]
        if denied:
            _refuse(denied)
        for key in keys:
            tables.claim(DateRange.parse(key, key), name)
    _note(one, keys, CLAIM, name, reason)


def _release_daily(one: One, keys: list[str], name: str, reason: str) -> list[str]:
    with open_store(one.settings.db) as store, store.writing() as tables:
        found = tables.holders(DateRange.parse(keys[0], keys[-1]))
        holders = {key: found[key] for key in keys if key in found}
        for key, holder in holders.items():
            tables.release(DateRange.parse(key, key), holder)
    _note(one, list(holders), RELEASE, name, reason)
    return list(holders)


def _note(one: One, keys: list[str], what: str, name: str, reason: str) -> None:
    """Write into the history what the five tables have no room for: who reserved dates of `daily`, and why."""
    if keys:
        with opened_ledger(one.settings) as ledger:
            ledger.change(DAILY_TABLE, keys, partial(_enter, what=what, name=name, reason=reason))


def _enter(page: Page, what: str, name: str, reason: str) -> None:
    for key in page.keys:
        page.enter(reserving.line(page, key, what, name, reason))


def _refuse(denied: Sequence[tuple[str, str]]) -> None:
    key, holder = denied[0]
    more = f", and {len(denied) - 1} more are held" if len(denied) > 1 else ""
    raise RefusedError(f"{key} is held by {holder}{more}; nothing was reserved")


def _check_key(ledger: SqlLedger, name: str, key: str) -> bool:
    """Return whether a dataset's keys are days; refuse a key that it can't have.

    Raises:
        UsageError: it is no day; or, where keys are no days, none that the ledger knows.
    """
    grain = (ledger.definition(name) or {}).get("grain", DAY)
    if grain == DAY:
        parse_key(key)
    elif not (grain == NONE and key == WHOLE) and not ledger.rows(name, key, key):
        raise UsageError(f"the ledger knows no partition {key!r} of {name}; the first write of it enters it")
    return bool(grain == DAY)


def _listed(one: One, asked: Asked) -> list[str] | None:
    """Return the keys that are asked for, where they are no days; None where they are."""
    if one.is_daily:
        return None
    with looking(one.settings.db) as ledger:
        if ledger is None or all(_check_key(ledger, one.place.dataset, key) for span in asked.spans for key in span):
            return None
    if between := [span for span in asked.spans if span[0] != span[1]]:
        raise UsageError(
            f"{between[0][0]} to {between[0][1]}: these keys have no order; name each as a span of its own"
        )
    return sorted({key for key, _ in asked.spans})


def _keys(one: One, asked: Asked) -> list[str]:
    if (listed := _listed(one, asked)) is not None:
        return listed
    found: set[str] = set()
    left = MOST_KEYS
    for first, last in asked.spans:
        days = reading.days_of(parse_key(first), parse_key(last)) or 0
        left -= days
        if not days > 0 or left < 0:
            raise UsageError(
                f"{first} to {last}: a span goes from its first key to its last, and one request names {MOST_KEYS} keys"
                " at most"
            )
        found.update(keys_between(first, last))
    return sorted(found)


def _counted(keys: Sequence[str]) -> str:
    return f"{keys[0]} is" if len(keys) == 1 else f"{len(keys)} partitions are"


def _json(told: Any) -> Response:
    return Response(json.dumps(told, separators=(",", ":")), media_type="application/json")


# refusals, in words


def _says(status: int) -> Callable[[Request, Exception], JSONResponse]:
    def answer(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status)

    return answer


def _unreadable(_request: Request, error: Exception) -> JSONResponse:
    log.warning("the page of partitions could not read a ledger: %s", error)
    return JSONResponse({"detail": UNREADABLE}, 503)


def _asked_wrongly(_request: Request, error: Exception) -> JSONResponse:
    """Say what of a request can't be read, in one sentence."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  as it is registered
    faults = [f"{'.'.join(map(str, fault['loc'][1:])) or 'the body'}: {fault['msg']}" for fault in error.errors()]
    return JSONResponse({"detail": "; ".join(faults)}, 400)


def _unforeseen(_request: Request, error: Exception) -> JSONResponse:
    log.error("the page of partitions could not answer", exc_info=error)
    return JSONResponse({"detail": "this should not have happened; the API server's log has more of it"}, 500)


app.add_exception_handler(UsageError, _says(400))
app.add_exception_handler(RefusedError, _says(409))
app.add_exception_handler(NoStoreError, _says(404))
app.add_exception_handler(AirflowNotFoundException, _says(404))
app.add_exception_handler(StoreError, _unreadable)
app.add_exception_handler(BackfillError, _unreadable)
app.add_exception_handler(RequestValidationError, _asked_wrongly)
app.add_exception_handler(Exception, _unforeseen)
