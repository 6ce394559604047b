# Every target sets up what it needs: a virtual environment in .venv with gapmix installed in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-full test-browser lint docs bench accuracy experiments clean

help:
	@echo "make demo         punch holes into a table, fill them, show how well it went"
	@echo "make test         the tests, in a few minutes"
	@echo "make test-full    the tests at their full sizes"
	@echo "make test-browser the report in a real browser; screenshots in build/screenshots"
	@echo "make lint         format, style and types"
	@echo "make docs         the documentation, into docs/_build/html, in two minutes"
	@echo "make bench        times beside others, in a quarter of an hour; needs a quiet machine"
	@echo "make accuracy     fillings beside others', in hours; MINUTES=20 for a part, goes on later"
	@echo "make experiments  the paper's studies, in half an hour; a second run takes seconds"

$(STAMP): pyproject.toml
	@echo "Setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not full"

test-full: $(STAMP)
	GAPMIX_FULL=1 $(BIN)/python -m pytest -n 2

# Debian's Chromium, driven over its own protocol: no other browser is downloaded.
test-browser: $(STAMP)
	@$(BIN)/python -m pip install --quiet --editable '.[dev,browser]'
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
	@$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	@touch $@

bench: $(STAMP)
	@$(BIN)/python -m pip install --quiet --editable '.[dev,plot]'
	$(BIN)/python -m benchmarks.run --all

# Other imputers get environments of their own in build/rivals. GAPMIX_DATA has most of the tables.
accuracy: $(STAMP)
	@$(BIN)/python -m pip install --quiet --editable '.[dev,plot]'
	$(BIN)/python -m benchmarks.accuracy --install $(if $(MINUTES),--minutes $(MINUTES))

# Data: GAPMIX_DATA, else OpenML. More of the paper's full grid: --full --only grid --minutes 60.
experiments: $(STAMP)
	$(BIN)/python -m experiments.mnist
	$(BIN)/python -m experiments.abalone

clean:
	rm -rf $(VENV) build dist docs/_build docs/_generated docs/auto_examples docs/generated .pytest_cache .mypy_cache .ruff_cache
