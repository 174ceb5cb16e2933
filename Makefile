# Entry points for developers. Each target installs what it needs into this directory. As root, tools/setup.sh also
# installs missing Debian packages; nothing else outside of this directory changes.

SHELL   := /bin/bash
VENV    := .venv
BIN     := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup native demo test lint check-generated bench e2e scale simulate soak chaos sanitize fuzz torch numba release nightly generate clean

help:  ## Lists the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/\1\t\2/' | expand -t 12

setup: $(VENV)/.ready  ## Creates the virtual environment .venv

$(VENV)/.ready: pyproject.toml tools/setup.sh tools/hatch_build.py tools/hatch_metadata.py
	@tools/setup.sh $(VENV)
	@touch $@

native: setup  ## Compiles the C parts
	@$(MAKE) --no-print-directory -s -C native

demo: native  ## Runs the demonstration on a simulated GPU and draws a picture
	@$(BIN)/nvshare demo --out build

test: native lint  ## Runs all tests that need no cluster and no GPU (about 30 minutes on 2 cores)
	@tools/setup.sh --tests $(VENV)
	@$(MAKE) --no-print-directory -s -C native checks
	@$(BIN)/python tools/run_tests.py

lint: setup  ## Checks style, types and generated files
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy --no-error-summary
	@MYPYPATH=tests:tools:tools/cluster:deploy $(BIN)/mypy --no-error-summary --cache-dir .mypy_cache/tests --explicit-package-bases tests
	@$(MAKE) --no-print-directory -s check-generated

check-generated: setup
	@$(BIN)/python tools/wire_header.py --check && $(BIN)/python tools/interception.py --check

generate: setup  ## Rewrites generated files
	@$(BIN)/python tools/wire_header.py && $(BIN)/python tools/interception.py

bench: native  ## Runs the benchmarks; fails if a figure exceeds its multiple of a floor measured in the same run
	@$(MAKE) --no-print-directory -s -C native bench
	@$(BIN)/python -m bench

simulate: native  ## Simulates scheduling, MODE=balanced: the thesis' table, 200 random mixes against the original and auto
	@$(BIN)/nvshare simulate thesis --mode $(or $(MODE),balanced)
	@$(BIN)/nvshare simulate mixes --mode $(or $(MODE),balanced) --count 200 --shake

soak: native  ## Runs simulated worlds with faults for SECONDS=120; a violation prints its seed. New worlds each time, or from seed FIRST on
	@$(BIN)/python tools/soak.py --seconds $(or $(SECONDS),120) $(if $(FIRST),--first $(FIRST))

chaos: native  ## Runs real processes while the scheduler is killed every second, SECONDS=60, and every load that once hurt
	@$(MAKE) --no-print-directory -s -C native checks
	@$(BIN)/python tools/chaos.py --seconds $(or $(SECONDS),60) --allocations $(or $(ALLOCATIONS),100000)

sanitize: native  ## Runs the library's tests under TSan, then under ASan and UBSan
	@$(BIN)/python tests/libnvshare/sanitize.py

fuzz: setup  ## Fuzzes every parser, SECONDS=60 each: Python with atheris, the library with libFuzzer
	@tools/fuzz.sh $(or $(SECONDS),60)

scale: native  ## Measures the load of 1,000 nodes on a real API server (root; builds Kubernetes once)
	@tools/cluster/build-kubernetes.sh && tools/cluster/build-runtime.sh
	@PYTHONPATH=src $(BIN)/python bench/apiserver.py

e2e: native  ## Runs the user's scenarios on a real Kubernetes node on this machine (root; builds Kubernetes once)
	@tools/e2e.sh

torch: native  ## Runs PyTorch on the simulated GPU, with and without nvshare (separate environment, 7 GB)
	@$(BIN)/python tools/torch_check.py

numba: native  ## Runs numba-cuda on the simulated GPU, with and without nvshare (separate environment, 0.8 GB)
	@$(BIN)/python tools/numba_check.py

release: setup  ## Builds wheels for x86_64 and aarch64, glibc 2.17, and the sources into build/release
	@$(BIN)/python -m pip install -q --group release
	@rm -rf build/release && $(BIN)/python tools/release.py --out build/release
	@$(BIN)/python -m twine check --strict build/release/*

nightly:  ## Every target in order, each in a fresh clone, with a table of results (root; hours, and 10 GB for torch and numba)
	@python3 tools/nightly.py $(TARGETS)

clean:
	rm -rf build $(VENV)
