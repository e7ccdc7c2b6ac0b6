# The whole developer interface. `make help` lists it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# The smaller environment, with which `make demo` begins: $(READY) completes it.
DEMO   := $(VENV)/.demo
ARGS   ?=
# What the extension is compiled from: a change installs again.
HOT    := scripts/compile_hot.py $(wildcard src/penstock/compiled/*.[ch])
# Third-party clients that cannot live in one environment, each with one of its own.
CLIENTS := $(patsubst tests/conformance/environments/%.txt,.venvs/%/.ready,$(wildcard tests/conformance/environments/*.txt))

# Every test that starts a process would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test samples check planted bench chaos-attack chaos-backup chaos-breaker chaos-bus chaos-collect chaos-compiled chaos-day chaos-gaps chaos-ingest chaos-jobs chaos-lake chaos-power chaos-rotation chaos-simulator chaos-snapshots chaos-streams chaos-surroundings chaos-ticks soak screenshots docs clean
.DEFAULT_GOAL := help

help: ## List the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(READY) ## Create .venv with everything the project and its tests need

$(READY): pyproject.toml constraints.txt scripts/make-venv scripts/bootstrap.txt scripts/vendor.py $(HOT)
	PYTHON=$(PYTHON) scripts/make-venv $(VENV) constraints.txt -e .
	@touch $(DEMO) $(READY)

$(DEMO): pyproject.toml constraints-demo.txt scripts/make-venv scripts/bootstrap.txt scripts/vendor.py $(HOT)
	@echo "Installing what the demo needs into $(VENV)."
	@PYTHON=$(PYTHON) scripts/make-venv $(VENV) constraints-demo.txt -e .
	@touch $(DEMO)

.venvs/%/.ready: tests/conformance/environments/%.txt scripts/make-venv
	PYTHON=$(PYTHON) scripts/make-venv .venvs/$* $<
	@touch $@

# All kinds of processes need all libraries.
demo: $(if $(findstring --full,$(ARGS)),$(READY),$(DEMO)) ## Collect from the built-in simulator and verify the records; ARGS="--seconds 15 --json"
	@$(BIN)/penstock demo $(ARGS)

# Files are shared out between forks (tests/workers.py): most tests wait for servers, so two cores are used
# better. In the order of tests/conftest.py, in which the longest come first.
test: $(READY) $(CLIENTS) ## Run every test; ARGS="-k book" narrows it
	$(BIN)/pytest --workers 7 $(ARGS)

# Each starts servers and collectors of its own, so no more of them at once than there are cores.
samples: $(READY) ## Run seeded samples of the chaos tests, the API fuzzer and a shared lake, a minute or less each
	$(BIN)/pytest --workers 2 -m sample tests/chaos tests/api/test_schema.py tests/cli/test_shared_lake.py tests/compiled $(ARGS)

check: $(READY) ## Lint, types, layers, tidiness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_tidy.py tests/test_docs.py

planted: $(READY) ## Plant each bug of tests/planted in a copy, and see that its tests catch it; ARGS=NAME
	$(BIN)/python -m tests.planted $(ARGS)

bench: $(READY) ## Run every benchmark; ARGS="sim --json" runs one
	bench/run $(ARGS)

# Minutes of one violence each; the same seed repeats the same schedule.
chaos-collect: $(READY) ## Kill the collector, and shards, over a hundred times and judge what is left; SEED=7 KILLS=200
	PENSTOCK_TEST_KILLS=$(or $(KILLS),120) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_kill_collector.py tests/chaos/test_kill_shards.py $(ARGS)

chaos-attack: $(READY) ## Attack an API, a simulator and a collector for a minute, and see what is left; SEED=7 SECONDS=600
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),60) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_attack.py $(ARGS)

chaos-backup: $(READY) ## Back up a store that is written at 5,000 messages/s, kill backups, refuse bad archives; SEED=7
	$(BIN)/pytest -q tests/backup/test_archive.py
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),60) PENSTOCK_TEST_KILLS=$(or $(KILLS),100) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_backup.py $(ARGS)

chaos-breaker: $(READY) ## Let an exchange fail under three processes for 100 cooldowns, and kill probers; ROUNDS=100
	PENSTOCK_TEST_ROUNDS=$(or $(ROUNDS),100) $(BIN)/pytest -s -m sample tests/chaos/test_breaker.py $(ARGS)

chaos-compiled: $(READY) ## Send ten minutes of frames and events, good and bad, to both paths, the compiled one sanitised; SEED=7 SECONDS=600
	$(BIN)/python -m tests.compiled.fuzz --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

chaos-day: $(READY) ## Record and seal a day of 20 markets, and watch log and memory; HOURS=24
	PENSTOCK_TEST_HOURS=$(or $(HOURS),24) $(BIN)/pytest -s -m sample tests/chaos/test_day.py $(ARGS)

chaos-gaps: $(READY) ## Cut connections a thousand times, and see that every missing trade is filled; SEED=7 CUTS=100
	PENSTOCK_TEST_CUTS=$(or $(CUTS),1000) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_gaps.py $(ARGS)

chaos-ingest: $(READY) ## Kill `penstock ingest` 100 times, continue it, and compare with the ledger; SEED=7 KILLS=100
	PENSTOCK_TEST_KILLS=$(or $(KILLS),100) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_kill_ingest.py $(ARGS)

chaos-jobs: $(READY) ## Kill and freeze three workers at a year of candles, and judge; SEED=7 KILLS=300
	PENSTOCK_TEST_KILLS=$(or $(KILLS),210) PENSTOCK_TEST_DAYS=$(or $(DAYS),365) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_kill_workers.py $(ARGS)

# A real file system in a loop file: says so and exits 2 where that cannot be had.
chaos-power: $(READY) ## Cut the power of a disk under collector, worker and broker 30 times; needs root; CUTS=30
	$(BIN)/python -m tests.chaos.power --cuts $(or $(CUTS),30) $(if $(SEED),--seed $(SEED))

chaos-lake: $(READY) ## Kill keepers twenty times at every point where they write, and judge; SEED=7 KILLS=20
	PENSTOCK_TEST_KILLS=$(or $(KILLS),20) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_lake.py $(ARGS)

chaos-bus: $(READY) ## Stop a subscriber under load, and attack a bus for a minute; STOP_S=30 RATE=2500 SECONDS=60
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),60) PENSTOCK_TEST_STOP_S=$(or $(STOP_S),30) PENSTOCK_TEST_RATE=$(or $(RATE),2500) $(BIN)/pytest -s -m sample tests/chaos/test_stop_subscriber.py tests/chaos/test_attack_bus.py $(ARGS)

chaos-snapshots: $(READY) ## Begin 400 cold books within the exchange's limit, and lose one of them; BOOKS=100
	PENSTOCK_TEST_BOOKS=$(or $(BOOKS),400) PENSTOCK_TEST_WEIGHT=6000 PENSTOCK_TEST_WINDOW=60 $(BIN)/pytest -s -m sample tests/chaos/test_cold_books.py $(ARGS)

chaos-streams: $(READY) ## Strike four exchanges with every fault of streams for ten minutes; SEED=7 SECONDS=600
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),600) PENSTOCK_TEST_SYMBOLS=20 PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_streams.py $(ARGS)

chaos-surroundings: $(READY) ## Lock the store, pause, fill the disk and stop four collectors for five minutes; SEED=7
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),300) PENSTOCK_TEST_SYMBOLS=4 PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_surroundings.py $(ARGS)

chaos-ticks: $(READY) ## Kill and pause Redis and daemons at 1,000 ticks/s on four exchanges; SEED=7 SECONDS=300
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),300) PENSTOCK_TEST_FAST=$(or $(FAST),36) PENSTOCK_TEST_SEED=$(SEED) PENSTOCK_TEST_KILLS=$(or $(KILLS),10) $(BIN)/pytest -s -m sample tests/chaos/test_ticks.py tests/chaos/test_ticks_fleet.py $(ARGS)

chaos-simulator: $(READY) ## Send clients and faults to four simulators for an hour, and watch them; SEED=7 SECONDS=600
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),3600) PENSTOCK_TEST_SEED=$(SEED) $(BIN)/pytest -s -m sample tests/chaos/test_simulator.py $(ARGS)

soak: $(READY) ## Watch the memory of a console for half an hour, of a collector for two hours; CONSOLE_SECONDS=300 SECONDS=300
	PENSTOCK_TEST_CONSOLE_SECONDS=$(CONSOLE_SECONDS) $(BIN)/pytest -s -m long tests/chaos/test_soak_console.py $(ARGS)
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),7200) $(BIN)/pytest -s -m long tests/chaos/test_soak.py $(ARGS)

chaos-rotation: $(READY) ## Replace connections every five seconds under load, and judge; SECONDS=600 RATE=6000
	PENSTOCK_TEST_SECONDS=$(or $(SECONDS),120) PENSTOCK_TEST_RATE=$(or $(RATE),6000) $(BIN)/pytest -s -m sample tests/chaos/test_rotation.py $(ARGS)

screenshots: $(READY) ## Take the pictures in docs/screenshots anew, with Debian's chromium
	PENSTOCK_TEST_SCREENSHOTS=1 $(BIN)/pytest -q tests/console/test_pages.py -k screenshots

docs: $(READY) ## Regenerate docs/cli.md, data.md, logs.md and settings.md, and build the site in build/site
	$(BIN)/python scripts/make_docs.py
	$(BIN)/python scripts/make_site.py

clean: ## Remove everything that was generated
	rm -rf $(VENV) .venvs build dist src/penstock/console/static/vendor .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
