# Few targets, the same for a person and for CI. `make lab` needs nothing but Python; `make test` makes its own
# virtual environments from the locked requirements.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: lab test lint unit faults bench clickstream-test kafka lock clean

lab:  ## every file of the lab, in $$BACKFILL_HOME
	@$(PYTHON) lab.py

test: lint unit  ## everything that CI runs

lint: .venv/.ready
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@PYTHONPATH=. $(BIN)/lint-imports --no-cache > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

unit: .venv/.ready
	@$(BIN)/pytest -q

clickstream-test: .venv/.ready  ## the generator's tests alone, on a Kafka of their own or $$KAFKA_BOOTSTRAP_SERVERS
	@$(BIN)/pytest -q tests/clickstream

kafka: .venv/.ready  ## Apache Kafka on loopback, until Ctrl-C
	@$(BIN)/python -m clickstream.kafka

faults: .venv/.ready  ## the store and its faults for longer: random operations by the minute, more of every fuzz
	@BACKFILL_FAULTS=long $(BIN)/pytest -q -s tests/store tests/faults

bench: .venv-bench/.ready  ## the tables of docs/benchmarks.md, measured here: half an hour, 8 GB of events in build/
	@.venv-bench/bin/python -m benchmarks.bench

.venv/.ready: requirements/dev.txt requirements/clickstream.txt
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes $(^:%=-r %)
	@touch $@

.venv-bench/.ready: requirements/bench.txt
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@

lock: .venv/.ready  ## lock the requirements again, with hashes
	@for set in requirements/*.in; do \
	  uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header $$set -o $${set%.in}.txt; \
	done

clean:
	@rm -rf .venv* .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
