# Everything a person does with this repo. Each target does its own set-up; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.setup-run
DEV_STAMP := $(VENV)/.setup-dev
INPUTS := pyproject.toml uv.lock scripts/setup
# One more than the cores that a run is meant for: a good quarter of the time a test waits for
# processes, browsers and servers of its own, and another can compute meanwhile.
WORKERS ?= 3
# A worker that dies ends the run, red: the plugin waits for ever for the tests of its replacement.
# Bytecode is kept, whatever the environment says: a new clone has none, and hundreds of processes
# would each compile the program and its libraries for themselves.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n $(WORKERS) --max-worker-restart=0
ARGS ?=

.PHONY: help run test check lint types format catalogue bench growth counts soak mutants clean

help:  ## list what can be done
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18
	@echo
	@echo '  ARGS="…" is passed on: make run ARGS="--port 9000", make test ARGS="tests/system -k lock"'

run: $(RUN_STAMP)  ## start the gateway (home: $HOLDFAST_HOME or ~/.holdfast)
	@exec $(BIN)/holdfast run $(ARGS)

test: $(DEV_STAMP)  ## run every test but the soak
	@scripts/synapse >/dev/null 2>&1 </dev/null &  # its tests come late, and wait for it
	@scripts/system-packages $(VENV)
	@$(PYTEST) --dist loadfile --no-loadscope-reorder -m "not soak" -rs --rerun-failed $(ARGS)

check: lint types  ## format, lint, types, and who may import whom

lint: $(DEV_STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo

types: $(DEV_STAMP)
	@$(BIN)/mypy

format: $(DEV_STAMP)  ## put the code in the form that check wants
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

catalogue: $(DEV_STAMP)  ## collect the texts to translate, and compile the translations
	@$(BIN)/python scripts/catalogue.py $(ARGS)

bench: $(DEV_STAMP)  ## measure against the floor, in a table
	@$(BIN)/python bench/run.py $(ARGS)

growth: $(DEV_STAMP)  ## measure how costs grow with history, sessions and streams
	@$(BIN)/python bench/growth.py $(ARGS)

counts: $(DEV_STAMP)  ## count what a start and a turn cost, for the test that compares
	@$(BIN)/python -m tests.bench.counts

soak: $(DEV_STAMP)  ## run the long tests: thousands of crash schedules
	@scripts/system-packages $(VENV)
	@HOLDFAST_SOAK=1 $(PYTEST) -m soak -rsP $(ARGS)

mutants: $(DEV_STAMP)  ## break the source in many ways, and see that the tests notice each
	@scripts/synapse
	@scripts/system-packages $(VENV)
	@$(BIN)/python -m tests.mutants.run --workers $(WORKERS) $(ARGS)

clean:  ## remove the virtual environment and all caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A full set-up serves a run as well; the small one is for whoever only wants to run it.
$(RUN_STAMP): $(INPUTS)
	@scripts/setup run $(VENV)
	@touch $@

$(DEV_STAMP): $(INPUTS)
	@scripts/setup dev $(VENV)
	@touch $@ $(RUN_STAMP)
