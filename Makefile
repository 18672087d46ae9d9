# `make demo` and `make test` work from a fresh clone with a Python 3.10 or newer and pip.

PYTHON ?= python3
TORCH ?= auto
VENV ?= .venv
TEST_FLAGS ?= -n auto
BENCH_FLAGS ?=
GPU_FLAGS ?=
WHEELS ?=
WHEELS_FOR ?=

BIN := $(VENV)/bin
HTA := .venv-hta
RECIPE := pyproject.toml constraints.txt scripts/environment.py

.PHONY: help demo test test-fast test-long check check-style check-types check-page format page bench gpu wheels docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     record a small training run here and show where its time went"
	@echo "make test     run the tests           (TEST_FLAGS='-n auto' by default)"
	@echo "make test-fast  run half of them in about a minute: reading, linking, storing, answering"
	@echo "make test-long  run all tests, those of minutes too, with forty times as many generated examples"
	@echo "make check    lint, format, types, import layers"
	@echo "make format   repair what the linter and the formatter can"
	@echo "make page     build the page's script and style from web/"
	@echo "make bench    compare StepScope with json.load, DuckDB, HTA and TraceLens (benchmarks/RESULTS.md), and measure the page"
	@echo "make gpu      verify on a GPU what is claimed about GPUs, within ten minutes   (GPU_FLAGS='--list')"
	@echo "make wheels   download what make gpu needs, for a machine without a network"
	@echo "make docs     regenerate the documentation pages that are made from the code"
	@echo "make clean    remove what the others made"
	@echo
	@echo "PYTHON=python3.12 names the Python to use, TORCH=no goes without torch."

# What is installed depends on these files alone; a stamp makes the second call instant. The developers'
# environment contains the users', so its stamp stands for both.
$(VENV)/.developer: $(RECIPE)
	@$(PYTHON) scripts/environment.py $(VENV) --dev --torch $(TORCH)
	@touch $(VENV)/.user $@

$(VENV)/.user: $(RECIPE)
	@$(PYTHON) scripts/environment.py $(VENV) --torch $(TORCH)
	@touch $@

# Without HTA the rest is measured all the same.
$(HTA)/.installed: benchmarks/hta-requirements.txt
	@echo "installing HTA, to measure against, in $(HTA)"
	@$(PYTHON) scripts/environment.py $(HTA) --only $< && touch $@ || echo "HTA could not be installed"

demo: $(VENV)/.user
	@$(BIN)/stepscope demo

test: $(VENV)/.developer
	@$(BIN)/python -m pytest $(TEST_FLAGS)

test-fast: $(VENV)/.developer
	@TEST_EXAMPLES=0.2 $(BIN)/python -m pytest $(TEST_FLAGS) -m "not torch and not traces and not slow" \
		$(addprefix --ignore=tests/,browser cli plugins record repo)

test-long: $(VENV)/.developer
	@TEST_EXAMPLES=20 $(BIN)/python -m pytest --long $(TEST_FLAGS)

check: check-style check-types check-page

check-style: $(VENV)/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

check-types: $(VENV)/.developer
	$(BIN)/mypy

check-page: $(VENV)/.developer
	@$(BIN)/python scripts/page.py check

format: $(VENV)/.developer
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

page: $(VENV)/.developer
	@$(BIN)/python scripts/page.py build

bench: $(VENV)/.developer $(HTA)/.installed
	@$(BIN)/python benchmarks/run.py --hta-python $(HTA)/bin/python $(BENCH_FLAGS)

# With the Python that is named and its own torch, which an environment would hide.
gpu:
	@$(PYTHON) benchmarks/gpu $(GPU_FLAGS)

wheels:
	@$(PYTHON) benchmarks/gpu/packages.py wheels $(WHEELS) $(if $(WHEELS_FOR),--python-version $(WHEELS_FOR))

docs: $(VENV)/.developer
	@$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) $(HTA) web/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
