"""Nodes on which another program answers in place of Python: each is named, and the others are asked all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.starts.cluster import DirectoryCluster, ended

ANSWERS = {
    "n2": "printf '{}\\n'",
    "n3": "printf '{bye}\\n'",
    "n4": "head -c 400000 /dev/zero | tr '\\0' '['; echo",
    "n5": "printf '{'; exec tr '\\0' 'x' < /dev/zero",
    "n6": 'printf \'{"type": "Hello", "readings": 5, "protocol": 1e999}\\n\'',
}


@pytest.fixture
def bad_nodes(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    """Nodes of which only n1 is as it should be."""
    cluster = directories("n1", *ANSWERS)
    for name, script in ANSWERS.items():
        (cluster.nodes[name].path / "python3").write_text(f"#!/bin/sh\n{script}\n")
    return cluster


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("check", "--only", "limits,network"), 3),
        (("gpus",), 3),
        (("ps",), 0),
        (("clean", "--dry-run"), 3),
        (("drift",), 3),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_no_answer_of_a_node_breaks_a_verb(bad_nodes: DirectoryCluster, words: tuple[str, ...], code: int) -> None:
    run = bad_nodes.run(*words, "-i", str(bad_nodes.inventory))
    assert "Traceback" not in run.stderr
    assert run.returncode == code, run.stderr
    assert "n[2" in run.stdout + run.stderr or "n2" in run.stdout + run.stderr


def test_a_start_names_every_node_that_answers_nonsense(bad_nodes: DirectoryCluster) -> None:
    run = ended(bad_nodes.start("--", "true"))
    assert run.returncode == 3, run.stderr
    assert "5 of 6 hosts cannot take part, so no rank was started" in run.stderr
    assert "n5: the agent ended with killed by SIGKILL: it sent a line of more than 4 MiB" in run.stderr
