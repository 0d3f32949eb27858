# make up      from a clone to models that are Ready, on a simulated cluster
# make test    lint, types and the tests, without the long sweeps of make test-full
# make check   lint, types and the quick tests
# make docs    the generated pages: stack files, accelerators, and one page per policy rule
PYTHON ?= python3
STACK ?= local
# pulumi, rehearsal, or auto: the Pulumi CLI if it is installed
ENGINE ?= auto
INFERPLAN := .venv/bin/inferplan
# Two workers per core: many tests wait for a control plane or a server.
PYTEST := .venv/bin/python -m pytest -n 4 --dist loadfile
# The example stacks are encrypted with this public passphrase. Use another one for your stacks.
ifeq ($(origin PULUMI_CONFIG_PASSPHRASE),undefined)
export PULUMI_CONFIG_PASSPHRASE := inferplan-example
export INFERPLAN_DEFAULT_PASSPHRASE := 1
endif
# Without bytecode on disk every process compiles the provider SDKs again, which takes longer than a plan.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up down status plan check test test-full lint bench docs setup setup-tests lock

up: setup
	@$(INFERPLAN) up $(STACK) --engine $(ENGINE)

down: setup
	@$(INFERPLAN) down $(STACK) --engine $(ENGINE) --cluster

status: setup
	@$(INFERPLAN) status $(STACK)

plan: setup
	@$(INFERPLAN) plan $(STACK)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyrefly check --summary=none
	@.venv/bin/python -m tests.prose

check: lint
	$(PYTEST) tests/unit -m "not full and not slow"

test: setup-tests lint
	$(INFERPLAN) toolchain
	@.venv/bin/python -m tests.dataplane.serving.environment
	$(PYTEST) -m "not full"

test-full: setup-tests lint
	$(INFERPLAN) toolchain
	@.venv/bin/python -m tests.dataplane.serving.environment
	HYPOTHESIS_PROFILE=new $(PYTEST)

bench: setup-tests
	@.venv/bin/python -m benchmarks

docs: setup
	@rm -rf docs/policies/rules
	@.venv/bin/python -m inferplan.policies.pages docs/policies/rules
	@.venv/bin/python -m inferplan.stackfile.reference docs/reference/stack-file.md
	@.venv/bin/python -m inferplan.components.nodes.table docs/reference/accelerators.md

lock: setup
	.venv/bin/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-emit-find-links --no-header --group dev pyproject.toml -o requirements.lock

setup:
	@$(PYTHON) bootstrap.py

setup-tests:
	@$(PYTHON) bootstrap.py --tests
