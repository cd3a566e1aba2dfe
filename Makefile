# Each target does all its own set-up, and takes PYTHON=/path/to/python3, the interpreter that .venv is made with.
export PYTHON

.PHONY: help setup demo test test-pythons test-releases check lab lab-down benchmarks faults clean

help:
	@echo "make demo   three nodes on this machine, provisioned, train a model together"
	@echo "make test   every test this machine can run"
	@echo "make test-pythons  what needs no lab, on the distribution's own Python and the newest one here"
	@echo "make test-releases  one story on nodes of each release the roles are for (minutes)"
	@echo "make check  linters, types, import floors"
	@echo "make lab    three nodes to play with (make lab-down removes them)"
	@echo "make benchmarks  the numbers of the documentation, measured here"
	@echo "make faults every fault that the checks must find, made on lab nodes"

setup:
	@scripts/setup

demo: setup
	@scripts/demo

test:
	@scripts/setup --for-tests
	@.venv/bin/python -m pytest -p tests.side_by_side -n 3

test-pythons:
	@scripts/test-pythons

test-releases:
	@scripts/setup --for-tests
	@PYLAUNCH_TEST_RELEASES="bookworm trixie jammy noble" .venv/bin/python -m pytest tests/lab/test_releases.py

check: setup
	@scripts/check

lab: setup
	@.venv/bin/pylaunch lab up -n 3 --inventory-out cluster.ini

lab-down: setup
	@.venv/bin/pylaunch lab down

benchmarks: setup
	@scripts/benchmarks

faults:
	@scripts/setup --for-tests
	@scripts/faults

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .ansible
