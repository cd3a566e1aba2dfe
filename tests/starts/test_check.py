from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster


def test_with_sync_the_code_that_would_be_shipped_is_checked(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("")
    words = ("check", "-i", str(cluster.inventory), "--only", "code", "--framework", "direct", "--sync", str(code))
    missing = cluster.run(*words, "--", "missing.py", code=ExitCode.USAGE)
    assert f"missing.py is not among the files to ship from {code}" in missing.stderr
    whole = cluster.run(*words, "--", "train.py")
    assert (whole.returncode, whole.stdout.strip()) == (ExitCode.DONE, "")


WITHOUT_TEMPORARY_FILES = """\
for each in /tmp /var/tmp; do mount --bind $each $each && mount -o remount,bind,ro $each || exit 99; done
mount -t tmpfs -o nr_inodes=1 none /mnt && cd /mnt || exit 99
unset TEMP TMP; export TMPDIR=/proc/none
exec /usr/bin/python3 "$@"
"""
"""Script that runs Python with a file system of its own for /tmp and others, in all of which no file can be written."""


def test_a_host_without_a_usable_directory_for_temporary_files_is_named_with_what_was_tried(
    directories: Callable[..., DirectoryCluster],
) -> None:
    cluster = directories("n1", "n2")
    node = cluster.nodes["n2"].path
    (node / "closed").write_text(WITHOUT_TEMPORARY_FILES)
    (node / "python3").write_text(f'#!/bin/sh\nexec unshare --mount sh {node}/closed "$@"\n')
    words = ("check", "-i", str(cluster.inventory), "--only", "storage")
    found = cluster.run(*words, code=ExitCode.CLUSTER_NOT_READY)
    assert "????" not in found.stdout
    assert (
        "FAIL  n2: temporary files: no file can be written in any directory for them (/proc/none: No such file or "
        "directory, /tmp: Read-only file system, /var/tmp: Read-only file system, /mnt: No space left on device)"
        "  [storage.writable]\n"
        "      fix: make one of them writable (mkdir -m 1777 /proc/none; findmnt -T /tmp; findmnt -T /var/tmp; "
        "df -h /mnt; df -i /mnt), or start with --env TMPDIR=DIR\n"
    ) in found.stdout
