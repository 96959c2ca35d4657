"""The suite that any target has to pass, over SQLite and PostgreSQL."""

from backfill_core.conformance.suite import *  # noqa: F403
