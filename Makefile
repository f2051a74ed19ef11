# Loadframe: `make demo` shows it, `make test` proves it, `make build` leaves .venv/bin/loadframe.
# Needs git, make, python3 (3.11 or later), a C linker and cargo (1.88 or later); the rest comes from PyPI and crates.io.

SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
UV := $(shell command -v uv || echo .tools/bin/uv)
SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock pyproject.toml
export VIRTUAL_ENV := $(CURDIR)/.venv
# Thousands of commands of the tests would compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

# Clippy in the place of rustc also compiles. Lints and tests then share what they compile, dependencies included.
CLIPPY = $(if $(shell cargo clippy --version 2>/dev/null),RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings)

.PHONY: build demo test check trials lint lint-python lint-rust test-rust format docs bench dist audit lock clean

build: .venv/.built

demo: build
	$(BIN)/loadframe demo

# A test that fails runs once more, alone, at the end; tests/unreliable.md counts those that pass then.
test: build
	$(BIN)/python tests/suite.py

# A quick check of a change: lint, types, unit tests, and the operations of the contract on Redis and PostgreSQL.
check: build lint
	$(BIN)/pytest -n 5 --dist loadscope -m check

# What takes longer than every change can wait for: hostile servers, kills, damaged files, simulations of the statistics.
trials: build
	$(BIN)/python -m trials
	$(BIN)/pytest -m trial

lint: lint-python lint-rust
	$(BIN)/pytest tests/test_words.py

lint-python: build
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Needs no build, so that the suite can run it beside the tests without replacing what they use.
lint-rust:
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --check; else echo "rustfmt is not installed: not checked"; fi
	@$(if $(CLIPPY),,echo "clippy is not installed: not checked")
	@$(CLIPPY) PYO3_BUILD_EXTENSION_MODULE=1 cargo build --profile test --locked --quiet --workspace --lib --tests --examples

# ARGUMENTS: options of cargo test. `--tests` leaves out the documentation, which has no tests. More threads than
# processors, because tests of phases mostly wait.
test-rust:
	@$(CLIPPY) RUST_TEST_THREADS=8 cargo test --locked --workspace --tests $(ARGUMENTS)

format: build
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt

# The documentation as a website in site/, which a browser also opens without a server.
docs: build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: build
	$(BIN)/python -m benchmarks

# A wheel for every Linux with glibc 2.17 or later (zig links it, whatever this machine's own C library), and the source.
dist: .venv/.installed
	$(UV) pip install --quiet --require-hashes --requirement requirements-dist.lock
	rm -rf dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --release --zig --compatibility manylinux2014 --out dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/twine check --strict dist/*

# Known vulnerabilities of the locked packages; says "not checked" without the databases.
audit: build
	$(BIN)/python -m tools.audit

lock: $(UV)
	$(UV) pip compile --quiet --universal --generate-hashes --no-header --group dev --output-file requirements.lock pyproject.toml
	$(UV) pip compile --quiet --universal --generate-hashes --no-header --group dist --output-file requirements-dist.lock

clean:
	rm -rf .venv .tools target dist site

# uv, from PyPI where the machine has none. `--target` works on systems whose Python is managed by the distribution.
.tools/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Loadframe needs Python 3.11 or later (make PYTHON=...)"; exit 2; }
	@if $(PYTHON) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m pip install --quiet --upgrade --target .tools uv; \
	elif $(PYTHON) -m venv .tools/venv >/dev/null 2>&1; then .tools/venv/bin/pip install --quiet uv && mkdir -p .tools/bin && ln -sf ../venv/bin/uv .tools/bin/uv; \
	else rm -rf .tools; echo "$(PYTHON) has neither pip nor venv, so uv cannot be fetched: install one of them, or uv itself"; exit 2; fi

.venv/.installed: requirements.lock | $(UV)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	$(UV) pip sync --quiet --require-hashes requirements.lock
	@touch $@

.venv/.built: .venv/.installed $(SOURCES)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.88 or later"; exit 2; }
	PATH="$(dir $(abspath $(UV))):$$PATH" $(BIN)/maturin develop --release --uv --quiet
	@touch $@
