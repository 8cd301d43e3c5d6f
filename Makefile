# Every target sets itself up from a bare checkout. Needs Python >= 3.11, a Rust toolchain, the package registries.
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(PATH):$(HOME)/.cargo/bin
.DEFAULT_GOAL := help
.PHONY: help setup dev pgo docs dist dist-check upgrade demo site test test-full bench golden ledger lint miri loom tsan format clean

help:        ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup:       ## install the pinned Python packages into .venv; build the engine, and the page where Node and wasm32 are
	@tools/setup.sh
	@tools/page.sh

dev:         ## the fast loop: build the engine with the profile `fast` (seconds after a change, runs a little slower); no page
	@tools/setup.sh fast

pgo: setup   ## the engine by a profile of what runs do: some minutes more, up to a tenth faster; needs rustup's component llvm-tools
	@tools/pgo.sh

docs: setup  # what the site and the notebooks need
	@tools/setup.sh docs

demo: setup  ## the incast study: table, figures and one HTML report, in about two minutes
	@.venv/bin/penstock demo

site: docs   ## the documentation, in out/site: its code is run, its figures are drawn, its links are checked
	@$(PY) tools/site

dist: setup  ## wheel (abi3, glibc 2.17 or newer, with the page, by a profile where llvm-tools are), sdist, and the papers' wheel, in dist
	@tools/dist.sh

dist-check: dist ## install the wheel into an empty environment without Rust and without a network, and use it
	@$(PY) tools/check_dist.py dist/penstock-*.whl

test: setup  ## all tests but the long ones
	@cargo test --workspace --exclude penstock-py --quiet
	@! grep -q live-bpf .venv/penstock-engine || cargo test -p penstock-live-bpf --features bpf --quiet
	@$(PY) -m pytest -m "not full"

test-full: docs ## all tests, and every row of the ledger at full length
	@cargo test --workspace --exclude penstock-py --quiet -- --include-ignored
	@$(PY) -m pytest
	@.venv/bin/penstock reproduce --all --full --check

bench: setup ## time per packet-hop, peak memory, two cores, start-up: the named jobs beside the baseline; and the page in a browser
	@$(PY) tools/bench.py
	@$(PY) tools/bench_page.py

golden: setup ## compare the golden results; `tools/golden.py renew --reason TEXT` writes them anew
	@$(PY) tools/golden.py check

ledger: setup ## every row of the ledger, quick: pin its verdicts, write out/ledger/report.html and the tables of verdicts
	@.venv/bin/penstock reproduce --all --quick --pin
	@$(PY) tools/verdicts.py write

lint: setup  ## rustfmt, clippy, rustdoc, ruff, mypy, the TypeScript compiler, the checks of prose and imports, all clean
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --exclude penstock-py --no-deps --quiet
	@.venv/bin/ruff format --check --quiet python papers tests tools docs/figures
	@.venv/bin/ruff check --quiet python papers tests tools docs/figures
	@.venv/bin/mypy --no-error-summary
	@$(PY) tools/prose.py
	@$(PY) tools/layers.py
	@if [ -x page/node_modules/.bin/tsc ]; then cd page && node_modules/.bin/tsc --noEmit; \
	    else echo "lint: without TypeScript (make setup says why)"; fi
	@echo "lint: clean"

miri:        ## the unsafe code of fabric and host in Miri; needs a nightly toolchain, or is skipped
	@tools/miri.sh

loom:        ## the barrier and the mailboxes between threads in every order of their steps; a part of `make test`
	@cargo test -p penstock-loom --quiet

tsan:        ## every golden scenario on four threads under ThreadSanitizer; needs a nightly toolchain, takes long
	@tools/tsan.sh

format:      ## rewrite the sources in the house format
	@cargo fmt --all
	@.venv/bin/ruff format python papers tests tools docs/figures
	@.venv/bin/ruff check --fix --quiet python papers tests tools docs/figures

upgrade:     ## re-resolve the pinned Python packages
	@tools/setup.sh upgrade

clean:       ## remove everything that was built
	rm -rf .venv target page/node_modules python/penstock/page
