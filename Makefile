# One command each; all of them set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-all check lint types bench docs wheel clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]' \
	    pytest pytest-xdist hypothesis ruff mypy scipy-stubs pre-commit build hatchling \
	    playwright axe-playwright-python annif-client schemathesis httpx2 requests
	touch $(STAMP)

demo: setup
	$(BIN)/ontodex demo demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not data and not gpu"

lint: setup
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench

types: setup
	$(BIN)/mypy

check: lint types test

bench: setup
	$(BIN)/python bench/run.py

docs: setup
	$(BIN)/python docs/generate.py

wheel: setup
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean:
	rm -rf dist build demo .pytest_cache .mypy_cache .ruff_cache
