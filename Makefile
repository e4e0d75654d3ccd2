# One command each; all of them set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --constraint constraints.txt
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.tools

.PHONY: install setup demo test test-all check lint types golden mutants bench attack docs wheel lock licences audit clean

install: $(STAMP)  # to use it
setup: $(TOOLS)  # to work on it: tests, linters, a browser's driver

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[all]'
	touch $(STAMP)

$(TOOLS): $(STAMP)
	$(PIP) --editable '.[all,onnx,hub,encoder,traces]' \
	    pytest pytest-xdist hypothesis ruff mypy scipy-stubs pre-commit build hatchling \
	    playwright axe-playwright-python annif-client schemathesis httpx2 requests transformers kubernetes-validate
	touch $(TOOLS)

demo: install
	$(BIN)/ontodex demo demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not data and not gpu"

lint: setup
	$(BIN)/ruff format --check src tests bench attack tools
	$(BIN)/ruff check src tests bench attack tools

types: setup
	$(BIN)/mypy

check: lint types test

golden: setup  # renew tests/golden.json; the commit that does so says why
	ONTODEX_GOLDEN=renew $(BIN)/python -m pytest tests/test_golden.py

mutants: setup  # by hand: an hour on 2 cores; the report is docs/lab/mutants.md
	$(PIP) cosmic-ray
	$(BIN)/python bench/mutants.py --out mutants.md

bench: setup
	$(BIN)/python bench/run.py

attack: setup  # SECONDS=28800 for a night; findings are files in attack-findings/
	$(BIN)/python -m attack --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1)

docs: setup  # the pages made from the code, then the site; a broken link fails
	$(PIP) --editable '.[docs]'
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The same commit gives the same bytes: its time is that of all files in the wheel.
wheel: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
wheel: setup  # with its bill of materials, dist/*.cdx.json
	$(BIN)/python -m build --wheel --no-isolation --outdir dist
	$(BIN)/python -m tools.sbom dist

lock: setup  # requirements.lock: the hashes of all files of the pinned versions
	$(BIN)/python -m tools.lock

licences: setup  # fails if a library's licence does not go with Apache-2.0
	$(BIN)/python -m tools.licences

audit: setup  # known vulnerabilities; without a network only those in tools/advisories.toml
	-$(BIN)/pip install --quiet pip-audit
	$(BIN)/python -m tools.audit

clean:
	rm -rf dist build demo site .pytest_cache .mypy_cache .ruff_cache
