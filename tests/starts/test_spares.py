"""A spare that another run took before it was needed is passed over."""

from collections.abc import Callable

from pylaunch.agent.shared import leases
from pylaunch.base.layout import default_root
from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended, says


def test_the_next_spare_replaces_one_that_another_run_took(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1", "n2", "n3", "n4")
    cluster.inventory.write_text(cluster.inventory.read_text() + "devices=0\n")
    few_files, go = cluster.nodes["n2"].has_few_files(), cluster.inventory.parent / "go"
    first = f"touch {few_files}; until [ -e {go} ]; do sleep 0.05; done; exit 1"
    job = f"[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; {first}"
    start = cluster.start("--spares", "2", "--max-restarts", "3", "--", "sh", "-c", job)
    says(start, "started in")
    lease = leases.take(leases.device_name(0, str(cluster.nodes["n3"].path / "root"), default_root()))
    assert not isinstance(lease, leases.Holder)
    with lease:
        go.touch()
        finished = ended(start, code=ExitCode.DONE)
    assert "restart 2 of 3 (n3 in place of n2: refused: a rank may have 64 files" in finished.stderr
    assert "restart 3 of 3 (n4 in place of n3: refused: device 0 is leased to pid " in finished.stderr
