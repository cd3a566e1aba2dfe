"""A reset of hosts on which ranks run."""

from collections.abc import Callable

import pytest

from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.features.provision.provisioning import refuse_live_ranks
from pylaunch.inventory import load_cluster
from tests.starts.cluster import DirectoryCluster, ended, says


def test_a_reset_that_would_take_the_environment_of_ranks_that_run_names_their_run(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    start = cluster.start("--", "sleep", "600")
    says(start, "started in")
    (run,) = cluster.outcomes()
    with pytest.raises(ClusterNotReadyError, match="nothing was undone") as refused:
        refuse_live_ranks(load_cluster(cluster.inventory))
    assert any(each.startswith(f"n[1-2]: run {run} of ") for each in refused.value.evidence)
    assert refused.value.hint is not None
    assert f"pylaunch stop {run}" in refused.value.hint
    assert cluster.run("stop", run).returncode == ExitCode.DONE
    ended(start)
