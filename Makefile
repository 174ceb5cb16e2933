# What a person types. Each target sets up by itself what it needs; nothing outside this directory is changed except
# Debian packages, and those only when run as root and missing (tools/setup.sh says which).

SHELL   := /bin/bash
VENV    := .venv
BIN     := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup native demo test lint check-generated bench e2e simulate soak chaos sanitize fuzz torch numba release generate clean

help:  ## What there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/\1\t\2/' | expand -t 12

setup: $(VENV)/.ready  ## A virtual environment with everything in it

$(VENV)/.ready: pyproject.toml tools/setup.sh tools/hatch_build.py
	@tools/setup.sh $(VENV)
	@touch $@

native: setup  ## The C parts
	@$(MAKE) --no-print-directory -s -C native

demo: native  ## Two programs that do not fit share one card, with a picture
	@$(BIN)/nvshare demo --out build

test: native lint  ## All hermetic tests (at most ten minutes)
	@tools/setup.sh --tests $(VENV)
	@$(MAKE) --no-print-directory -s -C native checks
	@$(BIN)/coverage run -m pytest -q tests/core tests/wire && $(BIN)/coverage report
	@$(BIN)/python -m pytest -q --ignore=tests/core --ignore=tests/wire \
	  || { echo "Once more, only what failed: a busy machine can be too late for a real process."; \
	       $(BIN)/python -m pytest -q --ignore=tests/core --ignore=tests/wire --last-failed -v; }

lint: setup  ## Style and types
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy --no-error-summary
	@$(MAKE) --no-print-directory -s check-generated

check-generated: setup
	@$(BIN)/python tools/wire_header.py --check && $(BIN)/python tools/interception.py --check

generate: setup  ## Rewrite generated files
	@$(BIN)/python tools/wire_header.py && $(BIN)/python tools/interception.py

bench: native  ## Speed, against floors measured in the same run; prints a table, writes build/bench.json
	@$(BIN)/python -m bench

simulate: setup  ## Scheduling on simulated cards, MODE=adaptive: the thesis' table, 200 random mixes against the original and auto
	@$(BIN)/nvshare simulate thesis --mode $(or $(MODE),adaptive)
	@$(BIN)/nvshare simulate mixes --mode $(or $(MODE),adaptive) --count 200 --shake

soak: setup  ## Simulated worlds with faults, SECONDS=120 of them; a broken law prints its seed
	@$(BIN)/python tools/soak.py --seconds $(or $(SECONDS),120)

chaos: native  ## Real processes on a simulated GPU while the scheduler is killed every second, SECONDS=60
	@$(BIN)/python tools/chaos.py --seconds $(or $(SECONDS),60)

sanitize: native  ## The library's tests under ThreadSanitizer, then AddressSanitizer with UndefinedBehaviorSanitizer
	@$(BIN)/python tests/libnvshare/sanitize.py

fuzz: setup  ## Random bytes for the readers of frames, SECONDS=60 each: ours in Python (atheris), the library's in C
	@tools/fuzz.sh $(or $(SECONDS),60)

e2e: native  ## A real Kubernetes node on this machine, the user's scenarios on it (root; builds Kubernetes once)
	@tools/e2e.sh

torch: native  ## PyTorch on the simulated GPU, bare and shared (an environment of its own, 7 GB)
	@$(BIN)/python tools/torch_check.py

numba: native  ## numba-cuda on the simulated GPU, bare and shared (an environment of its own, 0.8 GB)
	@$(BIN)/python tools/numba_check.py

release: setup  ## The library for x86_64 and aarch64, glibc 2.17, into build/release
	@$(BIN)/python tools/release.py --out build/release

clean:
	rm -rf build $(VENV)
