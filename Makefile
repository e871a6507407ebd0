# Every target does its own set-up in .venv; a second run finds it done. Needs: make, python3 >= 3.11 with venv.
# Tests of git over ssh and git-lfs need sshd and git-lfs, proofs of images dockerd and docker-registry and root,
# those of Ceph's gateway radosgw, ceph-mon and ceph-osd:
# where these are missing they are skipped. `.ci/run [test|prove]` installs them, where it may.

PYTHON  ?= python3
# Test processes side by side. The quick suite is sized for two cores: a quarter of its time is waiting for other programs,
# which a third worker fills. Who has run out of tests takes some of another's.
WORKERS ?= 3

VENV := .venv
BIN  := $(VENV)/bin
ROOMS := quota bundler bastion launch

# Images of Python often forbid it to keep what it has compiled. Each of the hundreds of programs that the tests start
# would compile all that it imports, and spend two thirds of its time on that.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint quick prove bench clean

help:  ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 16

demo: $(VENV)/base.stamp  ## Run a bastion, three jobs and a preemption on this machine, in about a minute
	@$(BIN)/bastion demo

test: lint quick  ## Everything that must hold before a change goes in

lint: $(VENV)/dev.stamp  ## Style, types, layers and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/bastion/scheduler
	$(BIN)/lint-imports
	@$(BIN)/interrogate --quiet $(ROOMS) || { $(BIN)/interrogate -vv --omit-covered-files $(ROOMS); exit 1; }

quick: $(VENV)/dev.stamp  ## The quick tests, house rules and docs included
	$(BIN)/pytest -m "not prove" -n $(WORKERS) --dist worksteal

prove: $(VENV)/dev.stamp  ## The long proofs: thousands of seeds, whole workloads
	$(BIN)/pytest -m prove -n $(WORKERS) --dist worksteal

bench: $(VENV)/dev.stamp  ## List the benchmarks and how to run one
	@$(BIN)/python -m benchmarks

clean:  ## Remove the environment and every cache
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Bastion needs Python 3.11 or later; this is " + sys.version.split()[0] + "; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }  # half an environment would look like a whole one

# The build backend comes from constraints.txt too: pip's own build isolation would fetch any version.
$(VENV)/build.stamp: constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables
	@touch $@

$(VENV)/base.stamp: pyproject.toml constraints.txt $(VENV)/build.stamp
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[sim]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt $(VENV)/build.stamp
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/base.stamp
