"""Where the store and the events are: two environment variables, and one that moves both defaults."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_HOME = "/root/backfill"


class Settings:
    """The two places that every command needs.

    db: the state store, the path of a SQLite file (`BACKFILL_DB`, else `state.db` in the home).
    events: the folder of source partitions (`BACKFILL_EVENTS`, else `events` in the home).

    The home is `BACKFILL_HOME`, else `/root/backfill`. A variable that is set but empty counts as not set.
    """

    __slots__ = ("db", "events")

    def __init__(self, db: str, events: str) -> None:
        self.db = db
        self.events = events

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read the places from `environ`, usually `os.environ`."""
        home = environ.get("BACKFILL_HOME") or DEFAULT_HOME
        return cls(
            db=environ.get("BACKFILL_DB") or f"{home}/state.db",
            events=environ.get("BACKFILL_EVENTS") or f"{home}/events",
        )
