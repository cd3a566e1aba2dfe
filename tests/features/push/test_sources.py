"""Words of a push that name files on a node."""

from pathlib import Path

import pytest

from pylaunch.broadcast.progress import BroadcastResult, Received
from pylaunch.cli.main import run
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.push import command as push
from pylaunch.features.push.command import files_of_node, without
from pylaunch.model.cluster import Cluster, Host

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def test_a_colon_before_the_first_slash_names_a_node_unless_there_is_such_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n1:x").touch()
    for local in ("model", "./n1:data", "n1:x"):
        assert files_of_node([local], lambda: CLUSTER) is None
    found = files_of_node(["n2:/data/a", "n2:b:c"], lambda: CLUSTER)
    assert found is not None
    assert (found.host.name, found.paths) == ("n2", ("/data/a", "b:c"))
    for wrong in (["n3:/data"], ["n1:"], ["n1:/a", "n2:/a"], ["n1:/a", "b"]):
        with pytest.raises(UsageError):
            files_of_node(wrong, lambda: CLUSTER)


def test_the_node_gets_no_copy_where_it_has_the_files_at_their_destination() -> None:
    node = files_of_node(["n1:/data/model/"], lambda: CLUSTER)
    assert node is not None
    for destination in ("/data/model", "/data/"):
        assert without(node, CLUSTER, destination).names == ("n2",)
    assert without(node, CLUSTER, "/data/model/") == CLUSTER
    with pytest.raises(UsageError, match="n1 has /data/model/ already"):
        without(node, CLUSTER.only(["n1"]), "/data/model")


def test_hosts_without_the_files_are_folded_with_their_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    failed = {
        host.name: Received(f"ssh {host.address}: no key", f"pylaunch trust --limit {host.name}", True, 0, 0, 0.1)
        for host in CLUSTER.hosts
    }
    monkeypatch.setattr(push, "load_cluster", lambda *_, **__: CLUSTER)
    monkeypatch.setattr(push, "broadcast", lambda *_, **__: BroadcastResult(failed, {}, 0.1))
    assert run(["push", str(tmp_path / "file"), "/data/"]) == ExitCode.CLUSTER_NOT_READY
    printed = capsys.readouterr().err
    assert "  n[1-2]: ssh 10.0.0.[1-2]: no key\n\nhint: pylaunch trust --limit 'n[1-2]'\n" in printed
