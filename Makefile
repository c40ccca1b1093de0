# Two commands on a fresh machine: `make demo` and `make test`.
# Every target makes its own virtual environment; PYTHON chooses the interpreter (3.11 or newer),
# and each version has an environment of its own: .venv of python3, .venv-3.13 of PYTHON=python3.13.

PYTHON ?= python3
VERSION = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(or $(VERSION),missing))
BIN := $(VENV)/bin
# Tests run in two processes, so each keeps to one thread.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-oldest test-blas test-slow fuzz lint format bench docs wheel clean
.NOTPARALLEL:

demo: $(VENV)/.installed-cli,plots
	$(BIN)/openset demo

test: $(VENV)/.installed-test
	$(PYTEST) -n 2

# With the oldest releases that pyproject.toml allows; they need Python 3.11 or 3.12.
test-oldest:
	@mkdir -p $(VENV)-oldest
	@grep -oE '"[a-z0-9-]+(\[[a-z,]+\])?>=[0-9.]+' pyproject.toml \
	  | sed -E 's/"|\[.*\]//g; s/>=/==/' > $(VENV)-oldest/constraints.txt
	$(MAKE) test VENV=$(VENV)-oldest CONSTRAINTS=$(VENV)-oldest/constraints.txt

# Under each set of kernels that OpenBLAS has for this processor, or those of BLAS=Haswell,...
NUMERIC := solver svm model_selection test_kernels.py wrappers export neighbors evt gaussian
TESTS ?= $(addprefix tests/,$(NUMERIC))
test-blas: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.blas \
	  $(if $(BLAS),--cores $(BLAS)) -n 2 $(TESTS)

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

# Two peers are built from source and left out where there is no C++ compiler.
bench: $(VENV)/.installed-bench
	@for peer in libsvm-official "--no-build-isolation liquidSVM==1.0.1"; do \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check setuptools wheel $$peer \
	    || echo "$$peer cannot be built here: it is left out"; done
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "built: docs/_build/html/index.html"

# With compiled functions inside, for this version of Python, this system and the newest Numba.
wheel: $(VENV)/.installed-test
	@rm -rf build/precompiled
	$(BIN)/python release/precompile.py build/precompiled
	OPENSET_PRECOMPILED=build/precompiled $(BIN)/python -m build --wheel

clean:
	rm -rf docs/_build docs/_generated docs/api docs/auto_examples docs/measured
	rm -rf .venv .venv-* build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each extra: installed again only when pyproject.toml is newer.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(addprefix --constraint ,$(CONSTRAINTS)) \
	  --editable ".[$*]"
	@touch $@

# A half-made environment is removed, so that the next try starts afresh.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "openset needs Python 3.11 or newer, not " + sys.version.split()[0] + "; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
