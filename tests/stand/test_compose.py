"""docker-compose.yaml as a file: shape, secrets, pins and settings. test_composed.py runs what it says."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys

from jsonschema import Draft7Validator

from clickstream.kafka import VERSION
from tests.stand.composed import COMPOSE, SERVICES, TEXT, VARIABLE, example, filled
from tests.stand.served import ROOT

# From github.com/compose-spec/compose-spec, schema/compose-spec.json of June 2026; Apache-2.0.
SCHEMA = json.loads((ROOT / "tests" / "stand" / "compose-spec.json").read_text())


def test_it_has_the_shape_of_a_compose_file() -> None:
    faults = [f"{error.json_path}: {error.message}" for error in Draft7Validator(SCHEMA).iter_errors(COMPOSE)]

    assert faults == []


def test_every_variable_is_in_the_example_and_no_secret_has_a_default() -> None:
    used = {name: how for name, how, _ in VARIABLE.findall(TEXT) if how}
    secrets = {name for name in example() if re.search("PASSWORD|SECRET|KEY$", name)}

    assert {name for name, _, _ in VARIABLE.findall(TEXT)} == set(example())
    assert {name for name, value in example().items() if not value} == secrets
    assert {name: used[name] for name in secrets} == dict.fromkeys(secrets, "?")


def test_only_loopback_is_published() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert len(ports) == 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_server_has_a_health_check_and_everything_waits_for_what_it_needs() -> None:
    servers = {name for name, service in SERVICES.items() if service["restart"] == "unless-stopped"}
    waits = {(name, other) for name, service in SERVICES.items() for other in service.get("depends_on", {})}

    assert all("healthcheck" in SERVICES[name] for name in servers)
    assert {"postgres", "kafka", "clickhouse", "superset"} < servers
    assert all(other in SERVICES for _, other in waits)
    for name, service in SERVICES.items():
        for other, wait in service.get("depends_on", {}).items():
            expected = "service_healthy" if other in servers else "service_completed_successfully"
            assert wait == {"condition": expected}, (name, other)


def test_every_image_is_pinned_and_everything_kept_is_in_a_named_volume() -> None:
    built = re.findall(r"FROM (\S+)", TEXT)
    kept = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]

    assert all(
        re.search(r":\d+\.\d+", image) for image in [*built, *(service["image"] for service in SERVICES.values())]
    )
    assert {name for name in kept if not name.startswith(".")} == set(COMPOSE["volumes"])


def test_an_image_of_our_own_is_built_by_one_service_and_never_pulled() -> None:
    own = [service for service in SERVICES.values() if service["image"].startswith("backfill-stand/")]

    assert sorted(service["image"] for service in own if "build" in service) == sorted({x["image"] for x in own})
    assert {service["pull_policy"] for service in own} == {"never"}


def test_the_versions_are_the_ones_that_the_tests_run() -> None:
    locks = "".join(path.read_text() for path in (ROOT / "requirements").glob("*.txt"))
    pinned = re.findall(r"([\w-]+)(?:\[binary\])?==([\d.]+)", " ".join(re.findall(r"RUN .*", TEXT)))

    assert SERVICES["kafka"]["image"] == f"apache/kafka:{VERSION}"
    assert f"FROM apache/airflow:{importlib.metadata.version('apache-airflow')}-python3" in TEXT
    assert f"clickhouse-server:{'.'.join(importlib.metadata.version('chdb-core').split('.')[:2])}" in TEXT
    assert f"FROM apache/superset:{re.findall('apache-superset==([0-9.]+)', locks)[0]}" in TEXT
    assert [pin for pin in pinned if f"{pin[0]}=={pin[1]}" not in locks] == []


def test_airflow_knows_every_setting_and_every_command() -> None:
    settings = {name for name in SERVICES["airflow-scheduler"]["environment"] if name.startswith("AIRFLOW__")}
    commands = [service["command"] for name, service in SERVICES.items() if name.startswith("airflow-")]
    asked = """
import json, sys
from airflow.cli.cli_parser import get_parser
from airflow.configuration import conf
settings, commands = json.load(sys.stdin)
for command in commands:
    get_parser().parse_args(command)
known = conf.configuration_description
options = {f"AIRFLOW__{name.upper()}__{key.upper()}" for name in known for key in known[name]["options"]}
print(json.dumps(sorted(set(settings) - options)))
"""

    plain = [command.split() for command in commands if isinstance(command, str)]
    checks = [
        SERVICES[f"airflow-{part}"]["healthcheck"]["test"][1].split()[1:5] for part in ("dag-processor", "triggerer")
    ]
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", asked],
        input=json.dumps([sorted(settings), [*plain, *checks, ["db", "migrate"]]]),
        env={**os.environ, "AIRFLOW__CORE__UNIT_TEST_MODE": "True"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout.splitlines()[-1]) == []
    assert [command[0] for command in plain] == ["api-server", "scheduler", "dag-processor", "triggerer"]


def test_the_connections_name_the_stores_that_compose_makes() -> None:
    from airflow.sdk import Connection

    from backfill_airflow.hook import settings_of

    secrets = {name: value or name.lower() for name, value in example().items()}
    environment = SERVICES["airflow-scheduler"]["environment"]
    for name, database in (("BACKFILL_DEFAULT", "backfill"), ("BACKFILL_MARTS", "marts")):
        connection = Connection.from_json(filled(environment[f"AIRFLOW_CONN_{name}"], secrets), conn_id=name.lower())

        settings = settings_of(connection)

        assert settings.db == f"postgresql://postgres:postgres_password@postgres:5432/{database}"
        assert f"CREATE DATABASE {database};" in COMPOSE["configs"]["databases"]["content"]
    assert (
        filled(environment["BACKFILL_DB"], secrets) == "postgresql://postgres:postgres_password@postgres:5432/backfill"
    )
