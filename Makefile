# make test       everything that must hold: tests, mypy, ruff
# make bench      the table of cells and paths, in at most five minutes; make bench-full by pyperf's own defaults, an hour
# make bench-native  what the kernels must show, a verdict a line
# make bench-onion   what a cell costs at each place of a circuit
# make study      the design study and its report, at most forty minutes
# make core       build the C core again after a change
# make proofs     the long proofs of the C core: tests/proofs/proofs.mk has a target for each
# make sanitize   the test suite against a core built with ASan and UBSan
#
# Each target sets up what it needs in .venv, from a fresh clone.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= out

.PHONY: help test bench bench-full bench-native bench-onion study core sanitize lint clean

$(VENV)/installed: pyproject.toml $(wildcard cellcrypt/csrc/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77" wheel
	$(BIN)/python -m pip install --quiet --no-build-isolation -e ".[dev]"
	touch $@

core: $(VENV)/installed

help:
	@sed -n '/^# make/s/^# //p' Makefile

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

# Every run writes a new file, since results are never overwritten.
NOW := $(shell date +%Y%m%dT%H%M%S)

bench: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python -m perf.rounds -o $(OUT)/cells-$(NOW).json bench_cells --quick --cold
	$(BIN)/python -m perf.report $(OUT)/cells-$(NOW).json

bench-full: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python -m perf.rounds -o $(OUT)/cells-full-$(NOW).json --until-stable 15 bench_cells
	$(BIN)/python -m perf.report $(OUT)/cells-full-$(NOW).json
	-$(BIN)/python -m pyperf check $(OUT)/cells-full-$(NOW).json

bench-native: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python -m perf.bench_native -o $(OUT)/native-$(NOW).json

bench-onion: $(VENV)/installed
	mkdir -p $(OUT)
	$(BIN)/python -m perf.bench_onion -o $(OUT)/onion-$(NOW).json

study: $(VENV)/installed
	$(BIN)/python -m perf.study -o $(OUT)/study-$(NOW)

sanitize: $(VENV)/installed
	VENV=$(VENV) sh tests/sanitize.sh

clean:
	rm -rf build dist $(OUT) cellcrypt/_core*.so *.egg-info

include tests/proofs/proofs.mk
