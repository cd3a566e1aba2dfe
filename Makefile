# Each target installs what it needs. PYTHON=/path/to/python3 sets the interpreter of .venv.
export PYTHON

.PHONY: help setup demo test test-pythons test-releases check collection docs lab lab-down benchmarks faults accuracy clean

help:
	@echo "make demo           provision three nodes on this machine and train a model on them"
	@echo "make test           run every test that this machine can run"
	@echo "make test-pythons   run the tests without lab on the distribution's Python and on the newest Python"
	@echo "make test-releases  run one scenario on nodes of each supported release (minutes)"
	@echo "make check          run linters, type checks and import contracts"
	@echo "make collection     build the Ansible collection pylaunch.cluster in dist/"
	@echo "make docs           build the documentation site in build/docs; every warning is an error"
	@echo "make lab            start three lab nodes (make lab-down removes them)"
	@echo "make benchmarks     measure the numbers of the documentation"
	@echo "make faults         inject every fault of the fault matrix on lab nodes"
	@echo "make accuracy       start runs with every fault of the drill on lab nodes, and score the verdicts (40 minutes)"

setup:
	@scripts/setup

demo: setup
	@scripts/demo

test:
	@scripts/setup --for-tests
	@.venv/bin/python -m pytest -p tests.side_by_side -n 6 --durations=30 --durations-min=20

test-pythons:
	@scripts/test-pythons

test-releases:
	@scripts/setup --for-tests
	@PYLAUNCH_TEST_RELEASES="bookworm trixie jammy noble" .venv/bin/python -m pytest tests/lab/test_releases.py

check: setup
	@scripts/check

collection: setup
	@scripts/collection

docs: setup
	@scripts/docs

lab: setup
	@.venv/bin/python -m lab up -n 3 --inventory-out cluster.ini

lab-down: setup
	@.venv/bin/python -m lab down

benchmarks: setup
	@scripts/benchmarks

faults:
	@scripts/setup --for-tests
	@scripts/faults

accuracy: setup
	@.venv/bin/python benchmarks/accuracy.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .ansible
