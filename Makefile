# Every command of the project, from a bare clone. `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.requirements-stamp
INSTALLED_DEV = $(VENV)/.requirements-dev-stamp

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format types smoke venv venv-dev gpu clean

help:  ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' \
		| while IFS="$$(printf '\t')" read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

demo: venv  ## Set everything up and train the default memory extractor
	$(BIN)/python train.py category=electronics target=wc

test: venv-dev  ## Run the fast tests
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-all: venv-dev  ## Run the slow tests too
	$(BIN)/python -m pytest -m "not gpu"

lint: venv-dev  ## Check style, formatting and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

format: venv-dev  ## Fix style and formatting where that is safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: venv-dev  ## Check types
	$(BIN)/mypy

smoke: venv  ## Prepare, train and evaluate end to end in the smallest setting
	$(BIN)/python prepare.py experiment=smoke
	$(BIN)/python train.py experiment=smoke
	$(BIN)/python evaluate.py experiment=smoke baseline=memrerank

venv: $(INSTALLED)  ## Install requirements.txt and the package into .venv

venv-dev: $(INSTALLED_DEV)  ## Install requirements-dev.txt too

gpu: venv  ## Swap faiss-cpu for faiss-gpu (see requirements-gpu.txt)
	$(BIN)/python -m pip uninstall --quiet --yes faiss-cpu faiss-gpu
	$(BIN)/python -m pip install --quiet -r requirements-gpu.txt

clean:  ## Remove the environment and the tools' caches; runs and MLflow stay
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis

# The package is installed without its dependencies: those are what the requirements files say.
$(INSTALLED): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit("memrerank needs Python 3.11 or later, not %d.%d: run make with PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing requirements.txt into $(VENV): minutes the first time, some 2.5 GB on disk"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# Without its `-r requirements.txt` line, which is installed already: after `make gpu` that line
# would bring faiss-cpu back.
$(INSTALLED_DEV): requirements-dev.txt $(INSTALLED)
	sed '/^-r /d' requirements-dev.txt \
		| $(BIN)/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin
	touch $@
