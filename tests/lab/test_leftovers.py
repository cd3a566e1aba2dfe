"""The labs of a killed test run do not fail the next one."""

import multiprocessing
import subprocess
import sys

from pylaunch.features.lab.cluster import spec
from pylaunch.features.lab.cluster.spec import LabSpec
from tests.lab import leftovers

LABS = 40
PROCESSES = 3


def ended_process() -> int:
    """Return the id of a process that is gone."""
    process = subprocess.Popen((sys.executable, "-c", ""))
    process.wait()
    return process.pid


def test_processes_of_one_test_run_remove_what_a_killed_run_left_at_the_same_moment() -> None:
    owner = ended_process()
    left = [leftovers.name_of(owner, number) for number in range(LABS)]
    for name in left:
        spec.save(LabSpec(name, nodes=("n1",), inventory="", share=()))
    forked = multiprocessing.get_context("spawn")
    removers = [forked.Process(target=leftovers.remove) for _ in range(PROCESSES)]
    for remover in removers:
        remover.start()
    for remover in removers:
        remover.join()
    assert [remover.exitcode for remover in removers] == [0] * PROCESSES
    assert not set(left) & set(spec.names())
