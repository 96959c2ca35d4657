"""A plugin that serves the built page, and answers what it asks: half a year of a shop, kept in memory.

The page is what is looked at. Each time that the dataset is asked for, one more day of a running backfill is published.
"""

from __future__ import annotations

import os
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep  # noqa: TC002  FastAPI reads it
from airflow.plugins_manager import AirflowPlugin
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse

FIRST, LAST = date(2024, 1, 15), date(2024, 6, 30)
LONG = date(1934, 11, 3), date(2026, 12, 31)
BUNDLE = Path(os.environ["PAGE_BUNDLE"])
NAME, LIVELY, MANY = "shop.orders_daily", "shop.payments", 1000
DAGS = {"daily": "shop", "range": "shop.range", "seal": "shop.seal", "unseal": "shop.unseal", "amend": "shop.amend"}
MISSING, PUBLISHED, HELD, SEALED, CORRECTED, FAILED, DRIFTED, LATE = "01234567"
AT = "2024-07-01T03:12:07Z"

LINE = {"at": AT, "run": None, "reason": "", "before": None, "after": None, "said": None}

app = FastAPI()
history: dict[str, list[dict[str, Any]]] = {}
corrections: dict[str, dict[str, Any]] = {}
sealed: set[str] = set()
states: dict[str, str] = {}
holders: dict[str, str] = {}


def days(first: date, last: date) -> list[str]:
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


for day in days(FIRST, LAST):
    states[day] = MISSING if day in ("2024-03-05", "2024-03-06") else FAILED if day == "2024-04-10" else PUBLISHED
    history[day] = []


def figures(day: str) -> dict[str, Any]:
    orders = 200 + date.fromisoformat(day).toordinal() % 17
    return {"rows": 10, "orders": str(orders), "amount": str(orders * 45_001)}


def lively() -> tuple[dict[str, str], dict[str, int]]:
    """Return three years to draw pictures of: a hole, failures, a drift, seals, corrections, a backfill under way."""
    chance = random.Random(4)
    found, orders, level = {}, {}, 180.0
    for key in days(date(2024, 1, 15), date(2026, 11, 30)):
        level += chance.uniform(-3, 3.1)
        orders[key] = int(level * (0.7 if date.fromisoformat(key).weekday() > 4 else 1) + chance.uniform(-9, 9))
        rare = chance.random()
        if "2025-06-09" <= key <= "2025-06-20" or rare < 0.003:
            found[key] = MISSING
        elif key < "2026-10-01":
            found[key] = CORRECTED if rare < 0.011 else LATE if rare < 0.013 else SEALED
        elif "2026-11-09" <= key <= "2026-11-20":
            found[key] = HELD if key > "2026-11-13" else PUBLISHED
        else:
            found[key] = FAILED if rare < 0.05 else DRIFTED if rare < 0.07 else PUBLISHED
    return found, orders


def note(day: str, what: str, by: str, reason: str) -> None:
    history[day].append({**LINE, "what": what, "owner": by, "reason": reason})


def keys_of(spans: list[list[str]]) -> list[str]:
    return [day for first, last in spans for day in days(date.fromisoformat(first), date.fromisoformat(last))]


@app.get("/partitions.js")
def bundle() -> FileResponse:
    return FileResponse(BUNDLE, media_type="text/javascript")


@app.get("/datasets")
def datasets(dag_id: str | None = None) -> Any:
    names = (
        [] if dag_id else [NAME, LIVELY, "archive.days", *(f"shop.table_{number:04d}" for number in range(MANY - 3))]
    )
    counts = [*states.values()]
    return {
        "datasets": [
            {
                "dataset": name,
                "dags": [],
                "newest": LAST.isoformat(),
                "sealed_up_to": None,
                "published": counts.count(PUBLISHED),
                "missing": counts.count(MISSING) if name == NAME else 0,
                "held": counts.count(HELD) if name == NAME else 0,
                "failed": counts.count(FAILED) if name == NAME else 0,
                "late": None,
                "drifted": 0,
                "checked_at": None,
                "changed": {"at": AT, "by": "shop"},
            }
            for name in names
        ]
    }


@app.get("/datasets/{name}")
def dataset(name: str, user: GetUserDep) -> Any:
    if name == "unreachable":
        raise HTTPException(503, "the database that the connection backfill_default names doesn't answer")
    amounts: dict[str, int] = {}
    if name == LIVELY:
        known, amounts = lively()
        keys = list(known)
    elif name == "archive.days":
        keys = days(*LONG)
        known = dict.fromkeys(keys, SEALED)
    else:
        keys, known = list(states), dict(states)
        if holders and user.get_name() != "viewer":
            day = min(holders)
            note(day, "published", holders.pop(day), "")
            states[day] = PUBLISHED
    here = [key for key in keys if known[key] != MISSING]
    return {
        "dataset": name,
        "grain": "day",
        "timezone": "UTC",
        "first": keys[0],
        "last": keys[-1],
        "keys": None,
        "states": "".join(known.values()),
        "sealed": "".join("1" if known[key] in (SEALED, CORRECTED, LATE) else "0" for key in keys),
        "measures": ["orders", "amount"],
        "figures": {
            measure: [
                None if known[key] == MISSING else str(amounts[key]) if key in amounts else figures(key)[measure]
                for key in keys
            ]
            for measure in ("orders", "amount")
        },
        "published_at": [AT if known[key] != MISSING else None for key in keys],
        "writers": [0 if known[key] != MISSING else -1 for key in keys],
        "by": ["shop"] if here else [],
        "holders": {key: {"by": "shop.range/manual__1", "run": None} for key in keys if known[key] == HELD},
        "corrections": [
            {"key": key, "at": AT, "right": {**figures(key), "orders": str(amounts.get(key, 300) + 30)}}
            for key in keys
            if known[key] == CORRECTED
        ],
        "dags": DAGS,
        "may": user.get_name() != "viewer",
        "why_not": None if user.get_name() != "viewer" else "You may look: only who may edit the DAGs may change this",
    }


@app.get("/datasets/{name}/partitions/{key}")
def partition(name: str, key: str) -> Any:
    known = lively()[0] if name == LIVELY else states if name == NAME else dict.fromkeys([key], SEALED)
    state = known[key]
    there = state != MISSING
    right = {"at": AT, "by": "anna", "reason": "30 orders came late", "before": figures(key), "after": None}
    right["after"] = {**figures(key), "orders": str(int(figures(key)["orders"]) + 30)}
    corrected = [corrections.get(key, right)] if state == CORRECTED else []
    lines = list(history.get(key, ()) if name == NAME else ())
    if name == LIVELY and there:
        published = {"what": "published", "owner": "shop", "run": {"dag_id": "shop", "run_id": f"scheduled__{key}"}}
        lines = [{**LINE, **published, "after": figures(key)}]
        if state in (SEALED, CORRECTED, LATE):
            lines.append({**LINE, "what": "sealed", "owner": "anna", "reason": "sent to the board"})
        if state == CORRECTED:
            lines.append({**LINE, "what": "corrected", "owner": "anna", "reason": right["reason"]})
    return {
        "key": key,
        "figures": figures(key) if there else None,
        "published_at": AT if there else None,
        "owner": "shop" if there else None,
        "reason": None,
        "run": {"dag_id": "shop", "run_id": f"scheduled__{key}"} if there else None,
        "sealed": state in (SEALED, CORRECTED, LATE),
        "holders": [{"by": holders.get(key, "shop.range"), "claim": "c", "since": AT, "run": None}] * (state == HELD),
        "failure": "12 rows are repeated" if state == FAILED else None,
        "failed_at": AT if state == FAILED else None,
        "drift": "3 rows that nobody of ours published" if state == DRIFTED else None,
        "checked_at": AT,
        "corrections": corrected,
        "history": lines,
    }


@app.post("/datasets/{name}/plan")
async def plan(name: str, request: Request) -> Any:
    known = lively()[0] if name == LIVELY else states
    partitions = [
        {
            "key": key,
            "action": "skipped" if known[key] in (SEALED, CORRECTED) else "change",
            "reason": "sealed" if known[key] in (SEALED, CORRECTED) else "moved",
            "before": figures(key),
            "after": None if known[key] in (SEALED, CORRECTED) else {**figures(key), "orders": "300"},
        }
        for key in keys_of((await request.json())["spans"])
    ]
    skipped = [one["action"] for one in partitions].count("skipped")
    return {
        "asked": len(partitions),
        "change": len(partitions) - skipped,
        "unchanged": 0,
        "skipped": skipped,
        "refused": 0,
        "unknown": 0,
        "partitions": partitions,
    }


@app.post("/datasets/{name}/run")
async def run(name: str, request: Request, user: GetUserDep) -> Any:
    asked = await request.json()
    keys = keys_of(asked["spans"])
    for key in keys:
        if asked["what"] == "backfill" and states[key] not in (SEALED, CORRECTED):
            states[key], holders[key] = HELD, user.get_name()
        if asked["what"] == "seal":
            states[key] = SEALED
        if asked["what"] == "amend":
            states[key] = CORRECTED
            after = {**figures(key), "orders": "301"}
            reason, by = asked["reason"], user.get_name()
            corrections[key] = {"at": AT, "by": by, "reason": reason, "before": figures(key), "after": after}
        note(key, asked["what"], user.get_name(), asked["reason"])
    dag_id = DAGS["range" if asked["what"] == "backfill" else asked["what"]]
    return {"words": f"{asked['what']} was started", "runs": [{"dag_id": dag_id, "run_id": "manual__1"}]}


@app.post("/datasets/{name}/{verb}")
async def change(name: str, verb: str, request: Request, user: GetUserDep) -> Any:
    keys = keys_of((await request.json())["spans"])
    if request.headers.get("X-Backfill") != "page":
        raise HTTPException(403, "a header is missing")
    if verb == "unseal":
        raise HTTPException(409, f"{name}: {keys[0]} is being corrected; try again")
    for key in keys:
        states[key], holders[key] = HELD, user.get_name()
    return {"words": f"{len(keys)} reserved in your name", "runs": []}


class PagePlugin(AirflowPlugin):
    """The page as the library's plugin registers it."""

    name = "page"
    fastapi_apps = [{"app": app, "url_prefix": "/backfill", "name": "backfill"}]  # noqa: RUF012
    react_apps = [  # noqa: RUF012
        {
            "name": "Partitions",
            "bundle_url": "/backfill/partitions.js",
            "destination": destination,
            "url_route": route,
            "nav_top_level": destination == "nav",
        }
        for destination, route in (("nav", "partitions"), ("dag", "dag-partitions"))
    ]
