# The front desk. `make` alone lists what can be asked for; every target sets up what it needs first.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
BIN := .venv/bin
READY := .venv/.ready
COMPILED := $(wildcard src/runnel/*/native/*)
ARGS ?=
SEEDS ?= 20

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  ARGS="…" is handed on: make test ARGS="tests/house -k settings", make run ARGS="--http :9090"'

$(READY): requirements.lock pyproject.toml tools/set-up $(COMPILED)
	@tools/set-up

.PHONY: run
run: $(READY) ## start a node with everything embedded, in ./runnel-data
	@[ -e .venv/.java-asked ] || { tools/system-packages java; touch .venv/.java-asked; }
	@exec $(BIN)/runnel serve $(ARGS)

.PHONY: test
test: $(READY) ## run all tests
	@tools/system-packages java postgres kcat chromium
	@$(BIN)/python -m pytest $(ARGS)

.PHONY: check
check: $(READY) ## style, types, floors, spelling, generated files and the lock: everything but tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/python tools/check_lock.py
	$(BIN)/python tools/make_docs.py --check

.PHONY: format
format: $(READY) ## mend what can be mended by itself: layout, imports
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: sim
sim: $(READY) ## the simulated cluster, SEEDS=20 different ones
	$(BIN)/runnel sim --seed 1..$(SEEDS) $(ARGS)

.PHONY: contract
contract: $(READY) ## each seam's promises against each of its implementations, by name
	@tools/system-packages postgres
	$(BIN)/python -m pytest tests/contract -v -p no:randomly $(ARGS)

.PHONY: conformance
conformance: $(READY) ## what other people's clients and suites say of our doors
	@tools/system-packages java mvn kcat
	@failed=0; for program in $(wildcard tests/conformance/*/run.py); do \
		echo "$(BIN)/python $$program"; $(BIN)/python $$program $(ARGS) || failed=1; \
	done; exit $$failed

.PHONY: integration
integration: $(READY) ## only the tests that start real servers: S3, PostgreSQL, nodes
	@tools/system-packages java postgres kcat chromium
	@$(BIN)/python -m pytest tests/contract tests/house tests/docs $(ARGS)

.PHONY: soak
soak: $(READY) ## hours instead of minutes: thorough properties, thousands of simulated clusters
	@RUNNEL_TEST_PROFILE=thorough $(BIN)/python -m pytest --timeout 3600 $(ARGS)
	$(BIN)/runnel sim --seed 1..2000 --keep-going

.PHONY: fuzz-http
fuzz-http: $(READY) ## bent requests and garbage to a node's HTTP door for SECONDS=120, until something breaks
	$(BIN)/python tests/fuzz/http_fuzz.py --seconds $(or $(SECONDS),120) $(ARGS)

.PHONY: schemathesis
schemathesis: $(READY) ## hold the OpenAPI documents of a node against it
	$(BIN)/python tests/fuzz/schemathesis_http.py $(ARGS)

.PHONY: fuzz-kafka
fuzz-kafka: $(READY) ## bent requests and garbage to a Kafka door for SECONDS=120, until something breaks
	$(BIN)/python tests/fuzz/kafka_fuzz.py --seconds $(or $(SECONDS),120) $(ARGS)

.PHONY: table-faults
table-faults: $(READY) ## kill the table service 200 times, at every step of a commit
	@RUNNEL_TABLE_KILLS=200 $(BIN)/python -m pytest tests/table/test_faults.py -q $(ARGS)

.PHONY: table-cluster
table-cluster: $(READY) ## the table service on a standalone Spark cluster of two workers, one of which dies
	@tools/system-packages java
	@RUNNEL_TABLE_CLUSTER=1 $(BIN)/python -m pytest -q tests/table/test_spark.py $(ARGS)

.PHONY: table-e2e
table-e2e: $(READY) ## a stock producer, `runnel table sync`, and every other reader of the tables
	@tools/system-packages java mvn
	@RUNNEL_TABLE_REST=1 $(BIN)/python -m pytest -q tests/table/test_outside.py -k rest
	@$(BIN)/python tests/table/e2e/run.py $(ARGS)

.PHONY: bench
bench: $(READY) ## the benchmarks: make bench ARGS="list", ARGS="run start", ARGS="compare old.json new.json"
	@$(BIN)/python bench/run.py $(if $(ARGS),$(ARGS),list)

.PHONY: docs
docs: $(READY) ## make the generated pages of docs/ anew
	$(BIN)/python tools/make_docs.py

.PHONY: lock
lock: $(READY) ## write requirements.lock anew from pyproject.toml
	$(BIN)/uv pip compile -q pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -o requirements.lock

.PHONY: clean
clean: ## remove what make and the tests made; a node's data stays
	rm -rf .venv .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +
