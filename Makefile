# Every target sets itself up from a bare checkout. Needs Python >= 3.11, a Rust toolchain, the package registries.
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(PATH):$(HOME)/.cargo/bin
.DEFAULT_GOAL := help
.PHONY: help setup upgrade demo test test-full bench golden lint format clean

help:        ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup:       ## install the pinned Python packages into .venv and build the engine
	@tools/setup.sh

demo: setup  ## the incast study: table, figures and one HTML report, in about two minutes
	@.venv/bin/penstock demo

test: setup  ## all tests but the long ones
	@cargo test --workspace --exclude penstock-py --quiet
	@! grep -q live-bpf .venv/penstock-engine || cargo test -p penstock-live-bpf --features bpf --quiet
	@$(PY) -m pytest -m "not full"

test-full: setup ## all tests, and every row of the ledger at full length
	@cargo test --workspace --exclude penstock-py --quiet -- --include-ignored
	@$(PY) -m pytest
	@.venv/bin/penstock reproduce --all --full --check

bench: setup ## nanoseconds per packet-hop and peak memory of the named jobs
	@$(PY) tools/bench.py

golden: setup ## compare the golden results; `tools/golden.py renew --reason LINE` writes them anew
	@$(PY) tools/golden.py check

lint: setup  ## rustfmt, clippy, ruff and mypy, all clean
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@.venv/bin/ruff format --check --quiet python tests tools
	@.venv/bin/ruff check --quiet python tests tools
	@.venv/bin/mypy --no-error-summary
	@echo "lint: clean"

format:      ## rewrite the sources in the house format
	@cargo fmt --all
	@.venv/bin/ruff format python tests tools
	@.venv/bin/ruff check --fix --quiet python tests tools

upgrade:     ## re-resolve the pinned Python packages
	@tools/setup.sh upgrade

clean:       ## remove everything that was built
	rm -rf .venv target
