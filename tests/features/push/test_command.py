"""What a push prints at its end."""

from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.features.push import command as push
from pylaunch.features.push.progress import PushResult, Received
from pylaunch.model.cluster import Cluster, Host

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def test_hosts_without_the_files_are_folded_with_their_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    failed = {
        host.name: Received(f"ssh {host.address}: no key", f"pylaunch trust --limit {host.name}", True, 0, 0, 0.1)
        for host in CLUSTER.hosts
    }
    monkeypatch.setattr(push, "load_cluster", lambda *_, **__: CLUSTER)
    monkeypatch.setattr(push, "push", lambda *_, **__: PushResult(failed, {}, 0.1))
    assert run(["push", str(tmp_path / "file"), "/data/"]) == ExitCode.CLUSTER_NOT_READY
    printed = capsys.readouterr().err
    assert "  n[1-2]: ssh 10.0.0.[1-2]: no key\n\nhint: pylaunch trust --limit 'n[1-2]'\n" in printed
