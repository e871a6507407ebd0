# Every target sets up what it needs in .venv, once. Needs: make, python3 >= 3.11 with venv.
# Some tests are skipped where a program is missing: sshd, git-lfs, chromium, kubectl, azurite (test); dockerd, docker-registry,
# debootstrap and root, radosgw, ceph-mon and ceph-osd (prove). `.ci/run [test|prove]` installs these programs as root on Debian.

PYTHON  ?= python3
# Number of test processes. The suite is sized for two cores. A quarter of its time is spent waiting for other
# programs, so a third process pays. A process that has no tests left takes some from another (`--dist worksteal`).
WORKERS ?= 3
# How many times as many random histories as fit into three hours on two cores `make prove` asks.
LENGTH  ?= 1

VENV := .venv
BIN  := $(VENV)/bin
PACKAGES := quota bundler bastion launch

# Container images of Python often set this. The tests start hundreds of programs, and each would spend two thirds of
# its time compiling what it imports.
unexport PYTHONDONTWRITEBYTECODE

# What a run prints at its end: why tests were skipped, and the slowest ones.
REPORT := -rs --durations=10 --durations-min=2

.DEFAULT_GOAL := help
.PHONY: help demo test lint tests quick prove docs bench clean

help:  ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 16

demo: $(VENV)/base.stamp  ## Run a bastion, three jobs and a preemption on this machine, in about a minute
	@$(BIN)/bastion demo

test: lint tests  ## Everything that must hold before a change goes in

lint: $(VENV)/dev.stamp  ## Style, types, layers and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin --exclude bastion/agent/ $(PACKAGES)
	$(BIN)/lint-imports
	@$(BIN)/interrogate --quiet $(PACKAGES) || { $(BIN)/interrogate -vv --omit-covered-files $(PACKAGES); exit 1; }

tests: $(VENV)/dev.stamp  ## All tests but the long proofs, house rules and docs included
	@echo "everything in tests/ that is not marked prove, in $(WORKERS) processes (WORKERS=N sets the number)"
	@echo "one test alone takes a second or two: $(BIN)/pytest tests/quota -k ceiling"
	$(BIN)/pytest -m "not prove" -n $(WORKERS) --dist worksteal $(REPORT)

quick: $(VENV)/dev.stamp  ## While you work: the tests that start no servers and no programs
	$(BIN)/pytest -m "not prove and not real" -n $(WORKERS) --dist worksteal $(REPORT)

prove: $(VENV)/dev.stamp  ## The long proofs: thousands of seeds, whole workloads (LENGTH=5: five times as many)
	PROVE_LENGTH=$(LENGTH) $(BIN)/pytest -m prove --timeout 0 -o faulthandler_timeout=0 -n $(WORKERS) --dist worksteal $(REPORT)

docs: $(VENV)/dev.stamp  ## Build the documentation as a site with search, in build/site
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs . build/site
	@cp build/site/README.html build/site/index.html
	@echo "build/site/index.html"

bench: $(VENV)/dev.stamp  ## List the benchmarks and how to run one
	@$(BIN)/python -m benchmarks

clean:  ## Remove the environment and every cache
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Bastion needs Python 3.11 or later; this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }  # a partial environment would pass for a complete one

# The build backend is pinned too: pip's build isolation would fetch any version of it.
$(VENV)/build.stamp: constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables
	@touch $@

$(VENV)/base.stamp: pyproject.toml constraints.txt $(VENV)/build.stamp
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[history,web]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt $(VENV)/build.stamp
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/base.stamp
