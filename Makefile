# make install | demo | site | test | test-slow | check. Each makes the environment (.venv) first.
#
#   make install TORCH_INDEX=URL   takes torch from another package index (the README gives the sizes)
#   make demo DEMO=--quick         the word game and the translation only
#   make site SITE=public RUNS="runs/my-1"   the page with real traces, for any web server
#   make test PYTHON=python3.12    another Python (3.11 or later)

TORCH_INDEX ?=
DEMO ?=
SITE ?= site
RUNS ?=
NEW_ENOUGH := 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c $(NEW_ENOUGH) 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --constraint constraints.txt
STAMP := .venv/.installed
DEV_STAMP := .venv/.installed-dev

.PHONY: install demo site test test-slow check format clean

install: $(STAMP)
	@echo "Installed. Next: make demo, or: $(BIN)/budgie --help"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Budgerigar needs Python 3.11 or later and found none." \
		"Install one, or name it: make install PYTHON=/path/to/python3.12" >&2; exit 2; }
	@$(PYTHON) -c $(NEW_ENOUGH) || { echo "$(PYTHON) is older than Python 3.11." >&2; exit 2; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "No venv could be made." \
		"On Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 2; }

# torch comes first and alone when another index is asked for: what it needs besides is then taken
# from the usual index, at the pinned releases.
$(STAMP): $(BIN)/python constraints.txt pyproject.toml
	@echo "Installing Budgerigar and what it needs into .venv (the README gives sizes) ..."
ifneq ($(TORCH_INDEX),)
	@$(PIP) --no-deps --index-url $(TORCH_INDEX) torch
endif
	@$(PIP) --editable .
	@touch $@

$(DEV_STAMP): $(STAMP)
	@echo "Installing the tools for tests and checks (0.3 GB on the disk) ..."
	@$(PIP) --quiet --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/budgie demo $(DEMO)

# Without RUNS it shows the models of the demo, which are trained first where they are not there.
site: $(STAMP)
	@$(BIN)/budgie explore $(RUNS) --site $(SITE)

# Two test processes of one thread each: two threads beside a busy process are slower than one.
test: $(DEV_STAMP)
	@$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(DEV_STAMP)
	@$(BIN)/python -m pytest -n 2 -m slow --timeout 1800

check: $(DEV_STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(DEV_STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
