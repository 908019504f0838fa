# `make demo` and `make test` do all the set-up themselves; see README.md.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.synced
NATIVE := $(VENV)/.native
# Jars, kits and suites of the peers live outside the checkout and are reused.
export OTTLA_CACHE ?= $(HOME)/.cache/ottla

help:
	@echo "make setup     .venv with everything, from requirements.lock"
	@echo "make demo      files -> topics -> Parquet on Spark; a topic grows, a broker dies; KEEP=1 keeps the cluster"
	@echo "make test      set-up and all tests; JOBS=3 takes three files at a time"
	@echo "make wheel     dist/ottla-….whl"
	@echo "make wheels    that one, and dist/ottla_native-….whl for Linux"
	@echo "make check     format, lint, types, import contracts"
	@echo "make screenshots  the pictures of the console in docs/console"
	@echo "make campaign  the long runs; results go to docs/campaigns/"

# uv comes from PATH, or from a plain venv of its own where it is missing.
UV := $(shell command -v uv 2>/dev/null || echo $(OTTLA_CACHE)/uv/bin/uv)

$(OTTLA_CACHE)/uv/bin/uv:
	$(PYTHON) -m venv $(OTTLA_CACHE)/uv
	$(OTTLA_CACHE)/uv/bin/pip install --quiet --disable-pip-version-check uv

# Compiled at once, as pip does it: brokers, tools and Spark's workers are processes that start often.
$(STAMP): pyproject.toml requirements.lock | $(filter $(OTTLA_CACHE)/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	$(UV) pip sync --quiet --require-hashes --compile-bytecode --python $(BIN)/python requirements.lock
	$(UV) pip install --quiet --no-deps --python $(BIN)/python --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

# Optional (docs/adr/0040-native.md): without cargo, or where the build fails, a line says so and
# everything goes on in pure Python. uv keeps the wheel, so a new .venv gets it at once.
$(NATIVE): $(STAMP) tools/build_native.py native/pyproject.toml native/Cargo.toml native/Cargo.lock $(wildcard native/src/*.rs native/load/Cargo.* native/load/src/*.rs)
	@$(BIN)/python tools/build_native.py $(UV) $(BIN)/python $@

# After a change of pyproject.toml's dependencies.
lock: | $(filter $(OTTLA_CACHE)/%,$(UV))
	$(UV) pip compile --quiet pyproject.toml --all-extras --group dev --universal --generate-hashes \
		--no-annotate --no-header --no-emit-package ottla-native --output-file requirements.lock

setup: $(STAMP) $(NATIVE)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then \
		for crate in native native/load; do \
			cargo fmt --manifest-path $$crate/Cargo.toml --check && \
			cargo clippy --quiet --locked --manifest-path $$crate/Cargo.toml -- --deny warnings || exit 1; \
		done; \
		cargo test --quiet --locked --manifest-path native/load/Cargo.toml; \
	else echo "native/ is not checked: cargo, rustfmt or clippy is missing"; fi

# Two test files at a time: most of them wait for other processes more than they compute. The long
# ones come first and hundreds of short ones last, so that both workers end together.
JOBS ?= 2
test: setup peers
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=5

unit: setup
	$(BIN)/pytest tests/unit

wheel: | $(filter $(OTTLA_CACHE)/%,$(UV))
	$(UV) build --quiet --wheel --out-dir dist

# That one, and native code for Linux: one wheel for all Pythons from 3.11 on and every glibc since
# 2014 (zig links against it), for each processor that rustc has a library for.
wheels: wheel
	@command -v cargo > /dev/null || { echo "make wheels needs cargo: https://rustup.rs"; exit 1; }
	@for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do \
		if [ -d "$$(rustc --print sysroot)/lib/rustlib/$$target/lib" ]; then \
			$(UV) tool run --quiet --from 'maturin[zig]>=1.9,<2' maturin build --quiet --release --locked --zig \
				--compatibility manylinux2014 --target $$target --manifest-path native/Cargo.toml --out dist || exit 1; \
		else echo "no wheel for $$target: rustup target add $$target"; fi; \
	done
	@ls dist/*.whl

# Fetches the peers' jars and suites once; says so and goes on where a tool for it is missing.
peers: setup
	$(BIN)/python tools/peers/fetch.py

demo: setup
	$(BIN)/python tools/demo.py $(if $(KEEP),--keep)

# The pictures of the console in docs/console.
screenshots: setup peers
	$(BIN)/python tools/screenshots.py

# Several hours on two cores; each run writes its page in docs/campaigns. Hypothesis marks its tests
# itself; here they draw new examples.
campaign: setup peers
	$(BIN)/pytest -m "campaign or hypothesis" -s

# Everything that make setup made in the checkout.
clean:
	rm -rf $(VENV) native/target native/load/target dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.PHONY: screenshots help lock wheel wheels clean setup check test unit peers demo campaign
