from pylaunch.agent.probe.readers.hosts import host


def test_octal_escapes_in_a_mount_path_are_decoded() -> None:
    assert host.unescaped("/data\\040größe\\134x") == "/data größe\\x"
