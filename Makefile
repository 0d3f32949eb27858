# make up      from a clone to models that are Ready, on a simulated cluster
# make test    lint, types and the tests, without the long sweeps of make test-full
# make check   lint, types and the quick tests
# make release the wheel and the source distribution, with checksums, bill of materials and provenance, in dist
# make pictures  the pictures of README and the pages, which need chromium and a Prometheus
# make docs    the site of the documentation in .site, with the generated pages
PYTHON ?= python3
STACK ?= $(if $(NODE),docs/real-node/Pulumi.cpu.yaml,local)
# real: a node with a kubelet, on which a real model answers (Linux and root; docs/rehearsal.md)
NODE ?= $(if $(MODEL),real)
# A folder with the files of a model, which answers instead of the tiny generated one
MODEL ?=
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

.PHONY: up down status plan check test test-full lint bench docs pictures setup setup-tests release lock

up: setup
	@PYTHON=$(PYTHON) ./setup.sh $(if $(NODE),--node,--nginx)
	@$(INFERPLAN) up $(STACK) --engine $(ENGINE) $(if $(NODE),--node $(NODE)) $(if $(MODEL),--real 'tiny=$(MODEL)')
	@PATH="$$PATH:/usr/sbin:/sbin"; test -n "$(NODE)" || command -v nginx >/dev/null || { echo "no model answered: install nginx, then run make up again" >&2; exit 1; }

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
	@.venv/bin/python -m tests.engine.programs
	$(PYTEST) -m "not full"

test-full: setup-tests lint
	$(INFERPLAN) toolchain
	@.venv/bin/python -m tests.dataplane.serving.environment
	@.venv/bin/python -m tests.engine.programs
	HYPOTHESIS_PROFILE=new $(PYTEST)

bench: setup-tests
	@.venv/bin/python -m benchmarks

docs: setup
	@.venv/bin/uv pip install --quiet --require-hashes --no-deps -r .ci/site.lock
	@.venv/bin/python .ci/manual.py
	@.venv/bin/python .ci/site.py

pictures: setup-tests
	@PYTHONPATH=. .venv/bin/python .ci/pictures.py

# The same commit gives the same bytes on any machine: hatchling writes times of SOURCE_DATE_EPOCH, fixed modes and a fixed order.
release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
release: setup
	@rm -rf dist
	@.venv/bin/python -m hatchling build --directory dist
	@.venv/bin/python .ci/describe_release.py dist

# Dockerfiles of inferplan/images install these.
LOCK_IMAGE = $(CURDIR)/.venv/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate requirements.txt -o requirements.lock

lock: setup
	.venv/bin/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-emit-find-links --no-header --extra aws --extra policy --group dev pyproject.toml -o requirements.lock
	echo zensical==0.0.73 | .venv/bin/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-emit-find-links --no-header --no-annotate --constraint requirements.lock - -o .ci/site.lock
	.venv/bin/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra predict --constraint requirements.lock pyproject.toml -o requirements-predict.lock
	.venv/bin/uv pip compile --quiet --generate-hashes --universal --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra aws --extra policy --constraint requirements.lock pyproject.toml -o inferplan/commands/init/template/requirements.lock
	.venv/bin/python -m tests.wheel_lock
	cd inferplan/images/pytriton && $(LOCK_IMAGE) --python-version 3.12 --python-platform x86_64-manylinux_2_35
	cd inferplan/images/ray-app && $(LOCK_IMAGE) --python-version 3.12 --constraint ../../../tests/dataplane/serving/environments/ray.lock
	cd inferplan/images/triton-gaudi && $(LOCK_IMAGE) --python-version 3.10 --python-platform x86_64-manylinux_2_35 --override overrides.txt
	# `pulumi install` reads this file. It cannot have hashes, since pip has none for this repository itself.
	{ echo '-e ../..'; .venv/bin/uv pip compile --quiet --universal --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra aws --extra policy -c requirements.lock pyproject.toml; } > inferplan/infra/requirements.txt

setup:
	@PYTHON=$(PYTHON) ./setup.sh

setup-tests:
	@PYTHON=$(PYTHON) ./setup.sh --tests
