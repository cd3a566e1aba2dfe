from __future__ import annotations

from pylaunch.agent.probe.readers import host


def test_a_mount_is_read_with_the_blanks_and_the_letters_of_its_path() -> None:
    assert host.unescaped("/data\\040größe\\134x") == "/data größe\\x"
