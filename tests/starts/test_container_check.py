"""`pylaunch check --container`: what a start would refuse. These options are those of pylaunch.features.containers."""

from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster
from tests.starts.containers import hide_programs, image_of_this_machine


def test_a_node_that_cannot_make_the_container_fails_and_without_a_container_nothing_is_asked(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    hide_programs(cluster.nodes["n2"])
    image = image_of_this_machine(tmp_path / "image")
    words = ("check", "-i", str(cluster.inventory), "--only", "containers")
    assert cluster.run(*words).returncode == ExitCode.DONE
    found = cluster.run(*words, "--container", str(image), code=ExitCode.CLUSTER_NOT_READY)
    assert found.stdout.startswith("FAIL  n2: bwrap not found, which a container needs  [containers.engine]\n")
    assert "--roles container_engine --limit n2" in found.stdout
    missing = cluster.run(*words, "--container", "/no/image.sqsh", "--limit", "n1")
    assert "FAIL  n1: image /no/image.sqsh does not exist  [containers.engine]" in missing.stdout
