"""A job refuses values that no start can have when it is made, in the words of the options."""

from datetime import timedelta
from typing import Any

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework, JobSpec, OnHang


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": ()}, "nothing to run"),
        ({"workdir": "src"}, "--workdir src: expected an absolute path"),
        ({"env": {"A=B": "1"}}, "--env A=B: expected the name of a variable"),
        ({"ranks_per_node": 0}, "--nproc-per-node 0: expected 1 or more"),
        ({"nodes": 0}, "--nodes 0: expected 1 or more"),
        ({"spares": -1}, "--spares -1: expected 0 or more"),
        ({"rendezvous_port": 65536}, "--port 65536: expected 1 … 65535"),
        ({"min_nodes": 0, "max_restarts": 1}, "--min-nodes 0: expected 1 or more"),
        ({"grace": timedelta(days=2)}, "--grace 172800: expected 0 … 86400 seconds"),
        ({"node_timeout": timedelta(seconds=1)}, "--node-timeout 1: expected 3 … 3600 seconds"),
        ({"hang_after": timedelta(seconds=0.5)}, "--hang-after 0.5: expected 1 … 86400 seconds"),
        ({"on_hang": OnHang.STOP, "hang_after": None}, "--on-hang stop has no effect with --hang-after off"),
        ({"on_hang": OnHang.RESTART}, "--on-hang restart has no effect without --max-restarts"),
        ({"spares": 1}, "--spares has no effect without --max-restarts"),
    ],
)
def test_a_job_that_no_start_can_have_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        JobSpec(**{"command": ("train.py",), "framework": Framework.DIRECT, "workdir": "/w", **given})
    assert refused.value.message == words
