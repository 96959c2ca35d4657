"""The page of partitions in Airflow's UI, and the API behind it (Airflow 3.1 and later).

Imports nothing heavy: Airflow loads plugins in every process, and only its API server answers requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

PREFIX = "/backfill"
BUNDLE = Path(__file__).parent / "built" / "partitions.js"
"""What `make page` builds from the sources in `page/`; the wheel has it."""


class _WhenAsked:
    """The API, imported with the first request."""

    _app: Callable[..., Awaitable[None]] | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if self._app is None:
            from backfill_airflow.page.app import app

            self._app = app
        await self._app(scope, receive, send)


def api() -> list[dict[str, Any]]:
    """Return the API as a plugin registers it."""
    return [{"app": _WhenAsked(), "url_prefix": PREFIX, "name": "Backfill"}]


def pages() -> list[dict[str, Any]]:
    """Return the pages as a plugin registers them: one in the navigation, and a tab of each DAG; none if not built."""
    if not BUNDLE.exists():
        return []
    from backfill_airflow.compat import conf

    below = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return [
        {
            "name": "Partitions",
            "bundle_url": f"{below}{PREFIX}/partitions.js",
            "destination": destination,
            "url_route": route,
            "nav_top_level": destination == "nav",
        }
        for destination, route in (("nav", "partitions"), ("dag", "dag-partitions"))
    ]
