# Few targets, the same for a person and for CI. `make lab` needs nothing but Python; `make test` makes its own
# virtual environments from the locked requirements.
PYTHON ?= python3
BIN := .venv/bin
AIRFLOW3 := .venv-airflow3/bin
AIRFLOW2 := .venv-airflow2/bin
STAND := .venv-stand/bin
OLDEST := --quiet --disable-pip-version-check --upgrade --no-deps --require-hashes -r requirements/oldest.txt

PAGE := plugins/backfill_airflow/page/built/partitions.js

.PHONY: lab test packages lint unit test-airflow test-stand test-superset faults bench bench-airflow bench-clickstream
.PHONY: bench-datasets bench-page airflow kafka stand clickstream-test page test-page screenshots lock clean

lab:  ## every file of the lab, in $$BACKFILL_HOME
	@$(PYTHON) lab.py

airflow: .venv-airflow3/.ready  ## Airflow 3 with the DAGs, on this machine; Ctrl-C ends it
	@$(AIRFLOW3)/python tools/airflow_native.py

test: packages lint  ## everything that CI runs; two suites side by side, the longest first
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target clickstream-test test-airflow unit test-stand test-superset

packages:
	@tools/system_packages

lint: .venv/.ready .venv-airflow3/.ready
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@MYPYPATH=plugins:tools:tests/airflow:dags/examples $(AIRFLOW3)/mypy --no-error-summary --follow-imports=silent \
	  plugins/*_airflow dags/*.py dags/examples/*.py tools/*.py benchmarks/airflow.py tests/airflow/*.py tests/airflow/dags/*.py tests/airflow/dags_shop/*.py
	@PYTHONPATH=.:plugins $(BIN)/lint-imports --no-cache > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

unit: .venv/.ready
	@$(BIN)/pytest -q tests/contract tests/core tests/store tests/model tests/ledger tests/target tests/datasets tests/command \
	  tests/faults

clickstream-test: .venv/.ready  ## the generator's tests alone, on a Kafka of their own or $$KAFKA_BOOTSTRAP_SERVERS
	@$(BIN)/pytest -q tests/clickstream

kafka: .venv/.ready  ## Apache Kafka on loopback, until Ctrl-C
	@$(BIN)/python -m clickstream.kafka

faults: .venv/.ready  ## the faults for longer: random operations by the minute, more of every fuzz, 1,000 looks at a live stand
	@BACKFILL_FAULTS=long $(BIN)/pytest -q -s tests/store tests/faults tests/model tests/ledger tests/target tests/datasets \
	  tests/clickstream/test_beside_a_live_generator.py tests/clickstream/test_two_at_once.py

test-airflow: test-page $(PAGE) .venv-airflow3/.ready .venv-airflow2/.ready  ## on both lines: 3 with the package installed, 2.11 with the plugins folder
	@$(AIRFLOW3)/pytest -q tests/airflow
	@PYTHONPATH=.:plugins $(AIRFLOW2)/pytest -q tests/airflow

bench: .venv-bench/.ready  ## the tables of docs/benchmarks.md, measured here: half an hour, 8 GB of events in build/
	@.venv-bench/bin/python -m benchmarks.bench

bench-clickstream: .venv/.ready .venv-stand/.ready  ## a day published, against the broker's own limit, and loaded: a few minutes
	@$(BIN)/python -m benchmarks.clickstream
	@$(STAND)/python -m benchmarks.etl

bench-datasets: .venv/.ready  ## a million rows under guard against the naked delete and insert, and a full ledger: 15 minutes
	@$(BIN)/python -m benchmarks.datasets
	@$(BIN)/python -m benchmarks.ledger

page: $(PAGE)  ## what Airflow's page shows of partitions, built by npm into the package

$(PAGE): page/node_modules/.ready $(wildcard page/src/*) page/tsconfig.json page/vite.config.mjs
	@npm --prefix page run --silent build

page/node_modules/.ready: page/package-lock.json page/package.json
	@npm --prefix page ci --silent
	@touch $@

screenshots: $(PAGE) .venv-airflow3/.ready  ## the pictures of the page in docs/images; look at each
	@$(AIRFLOW3)/python tools/screenshots.py

bench-page: $(PAGE) .venv-airflow3/.ready  ## how long the page takes, with 33,662 days and with a thousand datasets: five minutes
	@$(AIRFLOW3)/python benchmarks/page.py

test-page: page/node_modules/.ready  ## the page's own rules: keys, layout, words; without a browser
	@npm --prefix page test --silent

.venv/.ready: requirements/dev.txt requirements/clickstream.txt
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes $(^:%=-r %)
	@touch $@

.venv-bench/.ready: requirements/bench.txt
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@

bench-airflow: .venv-airflow3/.ready  ## what one more partition costs, about ten minutes
	@$(AIRFLOW3)/python benchmarks/airflow.py

.venv-airflow3/.ready: requirements/airflow3.txt requirements/oldest.txt pyproject.toml
	@$(PYTHON) -m venv .venv-airflow3
	@$(AIRFLOW3)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/airflow3.txt
	@$(AIRFLOW3)/pip install $(OLDEST) --target .venv-airflow3/oldest
	@$(AIRFLOW3)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv-airflow2/.ready: requirements/airflow2.txt requirements/oldest.txt
	@$(PYTHON) -m venv .venv-airflow2
	@$(AIRFLOW2)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/airflow2.txt
	@$(AIRFLOW2)/pip install $(OLDEST) --target .venv-airflow2/oldest
	@touch $@

stand: .venv-stand/.ready  ## Kafka, the warehouse and Airflow on this machine: one whole loop, then yours; Ctrl-C ends it
	@$(STAND)/python tools/stand_native.py

test-superset: .venv-stand/.ready .venv-superset/.ready  ## the dashboards, on a Superset of its own
	@$(STAND)/pytest -q tests/superset

test-stand: .venv-stand/.ready  ## the warehouse, the load and the whole loop
	@$(STAND)/pytest -q tests/stand

.venv-stand/.ready: requirements/stand.txt
	@$(PYTHON) -m venv .venv-stand
	@$(STAND)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/stand.txt
	@touch $@

.venv-superset/.ready: requirements/superset.txt
	@$(PYTHON) -m venv .venv-superset
	@.venv-superset/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/superset.txt
	@touch $@

lock: .venv/.ready  ## lock the requirements again, with hashes
	@for set in requirements/*.in; do \
	  uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $$set -o $${set%.in}.txt; \
	done

clean:
	@rm -rf .venv* .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info page/node_modules page/build $(dir $(PAGE))
