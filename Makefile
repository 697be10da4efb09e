# make test       everything that must hold: tests, mypy, ruff
# make bench      the table of the README, in at most five minutes; make bench-full with pyperf's own defaults
# make core       build the C core again after a change
# make sanitize   the test suite against a core built with ASan and UBSan
#
# Each target sets up what it needs in .venv, from a fresh clone.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= out

.PHONY: test bench bench-full core sanitize lint clean

$(VENV)/installed: pyproject.toml $(wildcard cellcrypt/csrc/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77" wheel
	$(BIN)/python -m pip install --quiet --no-build-isolation -e ".[dev]"
	touch $@

core: $(VENV)/installed

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

bench: $(VENV)/installed
	$(BIN)/python -m perf.bench_cells --quick --out $(OUT)

bench-full: $(VENV)/installed
	$(BIN)/python -m perf.bench_cells --out $(OUT)

sanitize: $(VENV)/installed
	VENV=$(VENV) sh tests/sanitize.sh

clean:
	rm -rf build dist $(OUT) cellcrypt/_core*.so *.egg-info
