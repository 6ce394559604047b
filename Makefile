# Every target sets up what it needs: a virtual environment in .venv with gapmix installed in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What depends on the versions of other packages: tables, estimators, kernels, files, pages.
OLDEST := build/oldest
OLDEST_TESTS := $(addprefix tests/test_,bad_input.py cli.py cli_files.py cli_mixed.py dates.py em.py \
  engines.py evaluate.py frames.py imputer.py kernels.py kinds.py mixed_tables.py modelfile.py \
  multiple.py notebook.py plots.py report.py sklearn_surface.py solvers.py sources.py tables.py)
# polars 1 reads maps of Parquet as lists; scikit-learn 1.7 asks a pipeline itself for weights of scores.
OLDEST_NOT := \
  tests/test_cli_files.py::test_types_that_text_cannot_hold_are_refused_before_the_fit[whole-map] \
  tests/test_imputer.py::test_sample_weight_is_routed_to_the_imputer

.PHONY: help demo test test-full test-oldest test-sdist test-browser lint docs dist bench accuracy experiments clean

help:
	@echo "make demo         punch holes into a table, fill them, show how well it went"
	@echo "make test         the tests, in a quarter of an hour"
	@echo "make test-full    the tests at their full sizes"
	@echo "make test-oldest  a part of the tests with the oldest packages allowed, in build/oldest"
	@echo "make test-sdist   the tests from the sdist in dist/, unpacked in a temporary folder"
	@echo "make test-browser the report in a real browser; screenshots in build/screenshots"
	@echo "make lint         format, style and types"
	@echo "make docs         the documentation, into docs/_build/html, in two minutes"
	@echo "make dist         wheel, sdist and bill of materials in dist/, checked and tried elsewhere"
	@echo "make bench        times beside others, in a quarter of an hour; needs a quiet machine"
	@echo "make accuracy     fillings beside others', in hours; MINUTES=20 for a part, goes on later"
	@echo "make experiments  the paper's studies, in half an hour; a second run takes seconds"

$(STAMP): pyproject.toml
	@echo "Setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not full"

test-full: $(STAMP)
	GAPMIX_FULL=1 $(BIN)/python -m pytest -n 2

test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest -n 2 -m "not full" -W default::DeprecationWarning $(OLDEST_TESTS) \
	  $(addprefix --deselect ,$(OLDEST_NOT))

$(OLDEST)/.installed: pyproject.toml tools/oldest.py
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(OLDEST)/bin/python tools/oldest.py > $(OLDEST)/oldest.txt
	@$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/oldest.txt --editable '.[all]' --group test
	@touch $@

# As those do who package gapmix: no repository around it, an environment of its own.
test-sdist:
	@test -f dist/gapmix-*.tar.gz || { echo "There is no sdist in dist/. Run 'make dist' first."; exit 1; }
	folder=$$(mktemp -d) && tar -xzf dist/gapmix-*.tar.gz -C $$folder --strip-components 1 \
	  && $(MAKE) -C $$folder test PYTHON=$(PYTHON) && rm -rf $$folder

# Debian's Chromium, driven over its own protocol: no other browser is downloaded.
test-browser: $(STAMP)
	@$(BIN)/python -m pip install --quiet --group browser
	@command -v chromium >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq chromium; } || { \
	  echo "Chromium is needed: 'apt-get install chromium' as root on Debian or Ubuntu, or"; \
	  echo "install it as your system does and put a program 'chromium' on the PATH."; exit 1; }
	$(BIN)/python -m pytest tests/browser

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Every example is run; a warning is an error.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python docs/check_links.py docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --group docs
	@touch $@

# The time of the last commit goes into the files, so that the same sources give the same bytes.
dist: $(STAMP)
	@$(BIN)/python -m venv build/tools
	@build/tools/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@build/tools/bin/python -m pip install --quiet --group dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1767225600) \
	  build/tools/bin/python tools/dist.py
	$(BIN)/python tools/walk.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run --all

# Other imputers get environments of their own in build/rivals. GAPMIX_DATA has most of the tables.
accuracy: $(STAMP)
	$(BIN)/python -m benchmarks.accuracy --install $(if $(MINUTES),--minutes $(MINUTES))

# Data: GAPMIX_DATA, else OpenML. More of the full profile: --full --only grid --minutes 60.
experiments: $(STAMP)
	$(BIN)/python -m experiments.mnist
	$(BIN)/python -m experiments.abalone

clean:
	rm -rf $(VENV) build dist docs/_build docs/_generated docs/auto_examples docs/generated .pytest_cache .mypy_cache .ruff_cache
