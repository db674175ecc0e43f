# All tasks of this repository; `make help` lists them. Each target sets up its environment first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.setup-run
DEV_STAMP := $(VENV)/.setup-dev
INPUTS := pyproject.toml uv.lock scripts/setup $(wildcard requirements/*.txt)
# One more than the cores of the CI machine: a test waits more than a quarter of its time for
# processes, browsers and servers, and another test can compute meanwhile.
WORKERS ?= 3
# A worker that dies fails the run, because the plugin would wait for ever for its replacement.
# Bytecode is always written: a new clone has none, and hundreds of processes would each compile
# the program and its libraries.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n $(WORKERS) --max-worker-restart=0
ARGS ?=

.PHONY: help run test check lint types format catalogue bench growth counts soak mutants clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18
	@echo
	@echo '  ARGS="…" adds arguments: make run ARGS="--port 9000", make test ARGS="tests/system -k lock"'

run: $(RUN_STAMP)  ## start the gateway (home: $HOLDFAST_HOME or ~/.holdfast)
	@exec $(BIN)/holdfast run $(ARGS)

test: $(DEV_STAMP)  ## run all tests except the soak tests
	@scripts/synapse background  # tests that need it wait for it
	@scripts/system-packages $(VENV)
	@$(PYTEST) --dist loadfile --no-loadscope-reorder -m "not soak" -rs $(ARGS)

check: lint types  ## check format, lint, import rules and types

lint: $(DEV_STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo

types: $(DEV_STAMP)
	@$(BIN)/mypy

format: $(DEV_STAMP)  ## format the code and fix what ruff can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

catalogue: $(DEV_STAMP)  ## collect the texts to translate, and compile the translations
	@$(BIN)/python scripts/catalogue.py $(ARGS)

bench: $(DEV_STAMP)  ## compare the gateway with the least possible cost
	@$(BIN)/python bench/run.py $(ARGS)

growth: $(DEV_STAMP)  ## measure how costs grow with history, sessions and streams
	@$(BIN)/python bench/growth.py $(ARGS)

counts: $(DEV_STAMP)  ## update the reference counts of a start and a turn
	@$(BIN)/python -m tests.bench.counts

soak: $(DEV_STAMP)  ## run the soak tests: thousands of crash schedules
	@scripts/system-packages $(VENV)
	@HOLDFAST_SOAK=1 $(PYTEST) -m soak -rsP $(ARGS)

mutants: $(DEV_STAMP)  ## apply each deliberate fault, and check that a test fails
	@scripts/synapse
	@scripts/system-packages $(VENV)
	@$(BIN)/python -m tests.mutants.run --workers $(WORKERS) $(ARGS)

clean:  ## remove the virtual environment and all caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The dev set-up includes the run set-up, which is smaller.
$(RUN_STAMP): $(INPUTS)
	@scripts/setup run $(VENV)
	@touch $@

$(DEV_STAMP): $(INPUTS)
	@scripts/setup dev $(VENV)
	@touch $@ $(RUN_STAMP)
