# make demo    translate with a trained model; train, score and use the sample translator
# make test    lint, types and tests
# make help    the rest

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# What the README's commands need is installed, and what checks and documentation need beyond that.
SETUP := $(VENV)/.installed
TOOLS := $(VENV)/.installed-dev
# Tests run in as many processes as there are cores, which share the work as they finish.
PARALLEL := --numprocesses auto --maxprocesses 8 --dist worksteal
# Formats the JavaScript as .prettierrc says, or checks it; does neither where there is no npm.
prettier = if command -v npx >/dev/null; then \
	npx --yes --prefer-offline prettier@3.10.1 --log-level warn $(1) 'seq2seq/**/*.js' 'tests/**/*.mjs'; \
	else echo "npx is not installed; skipping the JavaScript"; fi
export MPLBACKEND := Agg
# Python keeps what it has compiled: the tests start dozens of interpreters.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test test-fast fuzz bench lint types format docs site dist clean

help:
	@echo "make setup      install into .venv what training, translating and serving need"
	@echo "make demo       translate with the trained models, then train configs/quickstart.yaml,"
	@echo "                score it, translate, draw (runs/quickstart)"
	@echo "make test       install what they need; lint, types and all tests"
	@echo "make test-fast  tests without the slow ones"
	@echo "make bench      how fast this machine trains (about five minutes; bench.json)"
	@echo "make fuzz       property tests alone, with many random cases (about 20 minutes)"
	@echo "make format     format the code and fix what ruff can fix"
	@echo "make docs       write docs/configuration.md, the sizes in docs/architecture.md,"
	@echo "                and the outputs of docs/attention.ipynb"
	@echo "make site       write the documentation as a site into site/"
	@echo "make dist       write the source distribution, the wheel and a man page into dist/"
	@echo "make clean      remove .venv, site, dist, runs/quickstart and caches"

setup: $(SETUP)

$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "Python 3.10 or newer is needed; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing PyTorch and the rest into $(VENV), which takes a few minutes"
	$(PIP) torch setuptools wheel
	$(PIP) --no-build-isolation --editable '.[train,serve,plot,corpora]'
	@touch $@

$(TOOLS): $(SETUP)
	@echo "installing what tests and documentation need into $(VENV)"
	$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(SETUP)
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/demo.sh

# The types are checked by one of the tests (tests/test_types.py).
test: lint
	$(BIN)/pytest $(PARALLEL)

test-fast: $(TOOLS)
	$(BIN)/pytest $(PARALLEL) -m 'not slow'

bench: $(SETUP)
	$(BIN)/python scripts/benchmark.py --output bench.json

fuzz: $(TOOLS)
	$(BIN)/pytest $(PARALLEL) -m fuzz

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	@$(call prettier,--check)

types: $(TOOLS)
	$(BIN)/mypy

format: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@$(call prettier,--write)

docs: $(TOOLS)
	$(BIN)/seq2seq reference > docs/configuration.md
	$(BIN)/python scripts/documentation/architecture.py
	$(BIN)/python scripts/documentation/languages.py
	$(BIN)/python scripts/documentation/notebook.py

site: $(TOOLS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(TOOLS)
	$(BIN)/python -m build --no-isolation
	$(BIN)/argparse-manpage --module seq2seq.cli --function _command_parser --prog seq2seq \
		--manual-title seq2seq --format single-commands-section --output dist/seq2seq.1

clean:
	rm -rf $(VENV) site dist runs/quickstart .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
