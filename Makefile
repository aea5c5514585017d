# `make train` and `make test` set everything up by themselves: a virtual environment in .venv with what pyproject.toml names.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check --editable

.PHONY: train test sanitize lint format setup clean

train: $(VENV)/ready
	$(RUN) -m staleynet.train $(ARGS)

test: $(VENV)/ready-test
	$(RUN) -m pytest -n 2 --dist worksteal $(ARGS)

# Every kernel of StaleyNET that runs on a CPU, with all of its accesses watched
sanitize: $(VENV)/ready-test
	$(RUN) -m pytest -n 2 --dist worksteal -p kdsl.testing.plugin --kdsl-sanitize tests/staleynet/test_kernels_match_reference.py tests/staleynet/test_matmul_precisions.py tests/staleynet/test_turned_copies.py tests/staleynet/test_sum_of_parts.py $(ARGS)

lint: $(VENV)/ready-lint
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(VENV)/ready-lint
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# What all of the above need, in one go: CI does this first
setup: $(VENV)/made
	$(INSTALL) '.[test,lint]'
	touch $(VENV)/ready $(VENV)/ready-test $(VENV)/ready-lint

# A folder that a broken-off set-up left behind has no `made` file, so it is set up again.
$(VENV)/made: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11 to 3.13 is needed, this is %s; name another with make PYTHON=..." % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/ready: $(VENV)/made
	$(INSTALL) .
	touch $@

$(VENV)/ready-test: $(VENV)/made
	$(INSTALL) '.[test]'
	touch $@

$(VENV)/ready-lint: $(VENV)/made
	$(INSTALL) '.[lint]'
	touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
