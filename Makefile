# `make` lists the targets. Each first sees to it that tools/setup.sh has made .venv and found a Java.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

ENV := source .venv/env.sh;
CORE := tests/graph tests/protocol tests/scenarios

# Each run ends with its twenty slowest tests. Four at a time: on two cores two wait for a server or a clock.
WORKERS := 4
TESTS := python -m pytest --durations=20
# tests/conftest.py goes by these very words.
CHOSEN := -m "not crash and not slow"
DEALT = -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(CHOSEN)

# Tests start some hundreds of Pythons. What the first has compiled, the others read, also where the machine's own
# setting is that nothing is kept, as in many containers; the set-up leaves it to them too.
unexport PYTHONDONTWRITEBYTECODE

# Material's notice is known: docs/decisions/0038-mkdocs-now-zensical-later.md
export NO_MKDOCS_2_WARNING := 1

.PHONY: help setup demo test check site screenshots crash soak matrix simulate bench bench-backlog bench-pipeline bench-nexmark flink bench-profile bench-latency bench-settings bench-defaults bench-growth bench-sinks bench-requests bench-plan clean types archive lint compiled strict-site all-but-core core

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s%s\n", $$1, $$2 }' Makefile

setup: ## make .venv, find or install Java (at once when all is in place)
	@tools/setup.sh

demo: ## the flagship job: history and live stream, savepoint, resume, drain, comparison
	@tools/setup.sh product
	@$(ENV) python examples/demo.py

test: archive ## all tests but those that take minutes; ARGS="-k word" is passed on
	@$(ENV) $(TESTS) $(DEALT) $(ARGS)

check: setup ## what CI runs: format, lint, types, layers, dead code, prose, docs site, tests, full coverage of the pure core
	@$(MAKE) --no-print-directory --jobs=2 types archive lint compiled
	@$(MAKE) --no-print-directory --jobs=2 all-but-core core strict-site

# Parts of `check` that run side by side; the longest come first. While tests wait, the core's use the time.
all-but-core:
	@$(ENV) $(TESTS) $(DEALT) $(CORE:%=--ignore=%) $(ARGS)

core: # says all at its end, since another run of tests prints its dots meanwhile
	@$(ENV) said=$$(python -m pytest -q $(CORE) --cov --cov-report=term-missing 2>&1) || failed=$$?; \
	echo "$$said"; exit $${failed:-0}

types:
	@$(ENV) mypy

archive: setup # tests start many JVMs, which start quicker with Spark's classes kept in a file
	@$(ENV) python -m tests.class_archive

compiled: # once; in a fresh clone each of the workers would compile all tests and all of the package by itself
	@$(ENV) python -m pytest -q --collect-only $(CHOSEN) >/dev/null

lint:
	@$(ENV) ruff format --check .
	@$(ENV) ruff check .
	@$(ENV) lint-imports
	@$(ENV) vulture
	@$(ENV) python tools/prose.py
	@$(ENV) python tools/prose.py --docstrings

strict-site:
	@$(ENV) mkdocs build --quiet

site: setup ## the documentation site, in build/site, with warnings as errors
	@$(ENV) mkdocs build

screenshots: setup ## the pictures of docs/ui.md, taken in a real Chromium
	@$(ENV) PYTHONPATH=. python tools/screenshots.py

crash: archive ## kill a real driver at every durable step, resume, compare (minutes)
	@$(ENV) $(TESTS) -m crash --timeout=3600 $(ARGS)

soak: archive ## long runs (minutes)
	@$(ENV) $(TESTS) -m "slow and not crash" --timeout=3600 $(ARGS)

matrix: setup ## smoke tests on PySpark 3.5 to 4.3 and Python 3.10 to 3.13; PAIRS="4.0.0/3.11" chooses
	@$(ENV) tools/matrix.sh

bench: setup ## Rekindle against plain Structured Streaming, batch against streaming runs, state of a history; rewrites docs/benchmarks.md
	@$(ENV) for part in overhead batch history; do python bench/$$part.py $(ARGS); done

simulate: setup ## SEEDS=5000 whole lives of jobs without Spark; a failing seed prints its story
	@$(ENV) python -m rekindle.testing.simulator --seeds $(or $(SEEDS),5000)

bench-pipeline: setup ## jobs of several tasks: idle, checkpoints, ends, steps, hops, recovery; rewrites docs/benchmarks.md
	@$(ENV) for part in idle backlog ending shared_step hop recovery; do python bench/$$part.py $(ARGS); done

bench-profile: setup ## where the time of a job goes: its start, a batch, a row, a restart; rewrites docs/performance.md
	@$(ENV) for part in start_profile restart; do python bench/$$part.py $(ARGS); done

bench-latency: setup ## where the time of a single row goes, and what idle tasks use; rewrites its part of docs/performance.md
	@$(ENV) python bench/latency.py $(ARGS)

bench-backlog: setup ## a history before a live stream: streamed, and as a batch; rewrites its part of docs/benchmarks.md
	@$(ENV) for part in prelude groups; do python bench/$$part.py $(ARGS); done

flink: setup ## Flink in an environment of its own, for the columns of bench-nexmark
	@tools/flink.sh

bench-nexmark: setup ## Nexmark's queries beside plain Structured Streaming and Flink, stopped and killed; rewrites its parts of docs/benchmarks.md
	@$(ENV) python bench/nexmark_bench.py $(ARGS)

bench-settings: setup ## what each of Spark's settings of state does to stateful queries; rewrites its part of docs/benchmarks.md
	@$(ENV) python bench/state_settings.py $(ARGS)

bench-defaults: setup ## stateful queries beside Spark's defaults; rewrites its part of docs/benchmarks.md
	@$(ENV) python bench/spark_defaults.py $(ARGS)

bench-growth: setup ## how a job grows: rows, columns, keys, tasks, files, partitions, checkpoints, subtasks; rewrites docs/performance.md
	@$(ENV) python bench/growth.py $(ARGS)

bench-sinks: setup ## rows a second into each sink, against the usual way; rewrites its parts of docs/benchmarks.md
	@$(ENV) for part in sinks producers; do python bench/$$part.py $(ARGS); done

bench-requests: setup ## what a job asks of its bucket in an hour, by kind, and what that costs; rewrites docs/benchmarks.md
	@$(ENV) python bench/bucket.py $(ARGS)

bench-plan: setup ## plan a checkpoint of 1,000,000 subtasks: time and memory
	@$(ENV) python bench/plan.py $(ARGS)

clean: ## remove what the other targets made, .venv included
	rm -rf .venv build dist demo-data rekindle-state spark-warehouse metastore_db artifacts derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
