# Needs Python >= 3.11, make and a network. Everything else is put into .venv/ by `make env`.
PYTHON ?= python3
RUN := .venv/bin/python
# Some tests instead of all: make test T="tests/unit -k fair"
T ?=

.DEFAULT_GOAL := help
.PHONY: help env lab test cluster check bench smoke generate lock

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

env: ## .venv/ with everything, and the built lab extension
	@$(PYTHON) -m tools.environment

lab: env ## JupyterLab on the tour, with the scheduler on this machine
	@$(RUN) -m tools.lab

test: env ## all tests, on all cores, then those on a real Kubernetes; T="path -k word" for some
	@$(RUN) -m tools.browser
	@$(RUN) -m pytest $(or $(T),--numprocesses=auto --dist=loadfile --ignore=tests/cluster)
	@$(if $(T),,$(MAKE) --no-print-directory cluster)

cluster: env ## the tests on a real Kubernetes, built here the first time; its real node needs root
	@$(RUN) -m tools.cluster
	@$(RUN) -m pytest $(or $(T),tests/cluster --numprocesses=2)

check: env ## format, lint, types, architecture, generated files
	@$(RUN) -m tools.check

bench: env ## the planner's figures
	@$(RUN) -m bench

smoke: env ## what `make lab` starts, on free ports, checked and stopped
	@$(RUN) -m tools.smoke

generate: env ## files that are made from other files
	@$(RUN) -m tools.generate

lock: env ## the lock files, after a change of the dependencies
	@$(RUN) -m tools.lock
