"""Where the store and the events are: two environment variables, and one that moves both defaults."""

from __future__ import annotations

from backfill_core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_HOME = "/root/backfill"
ENGINES = ("python", "numpy")


class Settings:
    """The two places that every command needs, and what it counts with.

    db: the state store, the path of a SQLite file (`BACKFILL_DB`, else `state.db` in the home).
    events: the folder of source partitions (`BACKFILL_EVENTS`, else `events` in the home).
    engine: `python` or `numpy`, what recognises the lines (`BACKFILL_ENGINE`), None for the fastest that there is.
    workers: the most processes that count a long range (`BACKFILL_WORKERS`), None for the cores available.

    The home is `BACKFILL_HOME`, else `/root/backfill`. A variable that is set but empty counts as not set.
    """

    __slots__ = ("db", "engine", "events", "workers")

    def __init__(self, db: str, events: str, engine: str | None = None, workers: int | None = None) -> None:
        self.db = db
        self.events = events
        self.engine = engine
        self.workers = workers

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read them from `environ`, usually `os.environ`.

        Raises:
            UsageError: the engine or the number of workers is none that there can be.
        """
        home = environ.get("BACKFILL_HOME") or DEFAULT_HOME
        return cls(
            db=environ.get("BACKFILL_DB") or f"{home}/state.db",
            events=environ.get("BACKFILL_EVENTS") or f"{home}/events",
            engine=_engine(environ.get("BACKFILL_ENGINE")),
            workers=_workers(environ.get("BACKFILL_WORKERS")),
        )


def _engine(name: str | None) -> str | None:
    if name and name not in ENGINES:
        raise UsageError(f"BACKFILL_ENGINE is {name!r}; the engines are {' and '.join(ENGINES)}")
    return name or None


def _workers(number: str | None) -> int | None:
    if not number:
        return None
    if not (number.isascii() and number.isdigit() and len(number) <= 4 and int(number)):
        raise UsageError(f"BACKFILL_WORKERS is {number!r}; it is a number of processes, from 1 to 9999")
    return int(number)
