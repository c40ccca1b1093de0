# Two commands on a fresh machine: `make demo` and `make test`.
# Every target makes its own virtual environment; PYTHON chooses the interpreter (3.11 or newer).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run in two processes, so each keeps to one thread.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-slow fuzz lint format bench docs clean
.NOTPARALLEL:

demo: $(VENV)/.installed-cli,plots
	$(BIN)/openset demo

test: $(VENV)/.installed-test
	$(PYTEST) -n 2

test-slow: $(VENV)/.installed-test,docs
	$(PYTEST) -m slow

# Random attacks for MINUTES; the seed is printed, and SEED repeats a run.
MINUTES ?= 10
fuzz: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One peer is built from source and left out where there is no C++ compiler.
bench: $(VENV)/.installed-bench
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check libsvm-official \
	  || echo "libsvm-official cannot be built here: it is left out"
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "built: docs/_build/html/index.html"

clean:
	rm -rf docs/_build docs/_generated docs/api docs/auto_examples docs/measured
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each extra: installed again only when pyproject.toml is newer.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

# A half-made environment is removed, so that the next try starts afresh.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "openset needs Python 3.11 or newer, not " + sys.version.split()[0] + "; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
