# Everything runs in .venv, which is made from requirements.lock on first use and whenever that changes.

PYTHON ?= python3
UV_VERSION := 0.13.8
SOAK_SECONDS ?= 600

BIN := .venv/bin
INSTALLED := .venv/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup serve test check static soak bench format generate lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

setup: $(INSTALLED) ## make .venv with everything that the lock file pins

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"Rowlock needs Python 3.11 or later, {sys.executable} is {sys.version.split()[0]}; choose another: make PYTHON=python3.12")'
	@echo "setting up .venv from requirements.lock"
	@$(PYTHON) -m venv .venv
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

serve: setup ## start the broker on an embedded SQLite file, on port 9324 of this machine
	@$(BIN)/rowlock serve

test: static ## everything: format, lint, types, imports, and all tests on all three databases
	@$(PYTEST)

check: static ## the static part, and the quick tests on SQLite: under half a minute
	@$(PYTEST) --quiet -m "not slow" --stores=sqlite --hypothesis-profile=quick

static: setup
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted; run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > .venv/imports.log || { cat .venv/imports.log; exit 1; }

soak: setup ## crash and property tests with ever new seeds: make soak SOAK_SECONDS=3600
	@end=$$(( $$(date +%s) + $(SOAK_SECONDS) )); \
	while $(PYTEST) --quiet -m soak --hypothesis-profile=soak; do \
		[ "$$(date +%s)" -lt "$$end" ] || exit 0; \
	done; exit 1

bench: setup ## measure against plain SQL and write the table that docs/performance.md explains
	@$(BIN)/rowlock bench

format: setup ## format the code and mend what the linter can mend
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

generate: setup ## write what is made from other parts: the blocking library and docs/cli.md
	@$(BIN)/python -m tools.generate_blocking
	@$(BIN)/python -m tools.generate_cli_docs

lock: setup ## pin anew what pyproject.toml asks for
	@$(PIP) install uv==$(UV_VERSION)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --extra all --group dev --output-file requirements.lock pyproject.toml

clean: ## remove .venv and the caches
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
