"""Contract with OpenSSH: the reason of a jump host is read where connections are shared."""

from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode


@pytest.mark.parametrize(
    "verb",
    [
        ("check",),
        ("ps",),
        ("push", "cluster.ini", "/tmp/never"),
        ("start", "--framework", "command", "--", "true"),
        ("start", "--queue", "--framework", "command", "--", "true"),
    ],
)
def test_a_jump_host_that_is_not_reached_is_the_reason_though_connections_are_shared(
    verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ssh discards what the ssh to the jump host prints where the connection is to be shared (ControlPersist)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.ini").write_text(
        "[cluster]\nn[1:2]\n[cluster:vars]\nansible_ssh_common_args='-J 127.0.0.1:1'\n"
    )
    assert run([verb[0], "-i", "cluster.ini", *verb[1:]]) != ExitCode.DONE
    printed = "".join(capsys.readouterr())
    assert "not reached through its jump host (connect to host 127.0.0.1 port 1: Connection refused" in printed
    assert "known_hosts" not in printed
