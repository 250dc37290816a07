# make help          says what there is
# A target that needs the environment (.venv) makes it first.
.DEFAULT_GOAL := help
.PHONY: help run install test gate fix bench e2e e2e-egress docs lock clean

# What is asked reaches the program through the environment, so that quotes, $ and the like in it stay as they are.
override ASK := $(value ASK)
export ASK

# Compiled once, not at each start of each process: some images of Python set this.
unexport PYTHONDONTWRITEBYTECODE

PYTHON := .venv/bin/python

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: .venv/ready ## set everything up and open a chat; with ASK="…", answer that and end
	@.venv/bin/bxctl run $${ASK:+-- "$$ASK"}

install: .venv/ready ## put the box on this host as hardened units of systemd; as root
	@.venv/bin/bxctl install

test: .venv/ready ## every test
	@$(PYTHON) -m pytest -n 2

gate: .venv/ready ## everything that a change must pass; the tests on Python 3.13 too
	@$(PYTHON) -m tests.gate

fix: .venv/ready ## format, repair what can be, and write the generated files again
	@$(PYTHON) -m tests.gate.fix

bench: .venv/ready ## the measurements, printed side by side
	@tests/peers/environment.sh
	@$(PYTHON) -m tests.bench

e2e: .venv/ready ## only the tests over real processes
	@$(PYTHON) -m pytest -m "e2e or kill"

e2e-egress: .venv/ready ## the egress with LiteLLM's proxy and Chromium, each in an environment of its own
	@tests/peers/environment.sh
	@$(PYTHON) -m pytest -m peers

docs: .venv/ready ## write the generated pages of docs/ again
	@$(PYTHON) -m tests.gate.docs

lock: .venv/ready ## resolve the dependencies again into requirements.lock
	@$(PYTHON) -m tests.gate.lock

clean: ## remove the environments and every cache
	@rm -rf .venv .venv-3.13 .venv-litellm .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* dist

.venv/ready: requirements.lock pyproject.toml
	@tests/gate/environment.sh .venv
