"""Images of the programs of this machine, in which ranks start as in any other image."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.starts.cluster import Directory

LINKS = ("bin", "sbin", "lib", "lib64")


def image_of_this_machine(directory: Path) -> Path:
    """Make an image whose /usr is empty: `in_container` mounts that of this machine. Skip without bubblewrap."""
    if shutil.which("bwrap") is None or not all(Path("/", name).is_symlink() for name in LINKS):
        pytest.skip("needs bubblewrap, and programs in /usr alone")
    for name in ("usr", "etc", "root"):
        (directory / name).mkdir(parents=True)
    for name in LINKS:
        (directory / name).symlink_to(Path("/", name).readlink())
    (directory / "marker").touch()
    return directory


def in_container(image: Path) -> tuple[str, ...]:
    """Return the flags of a start of ranks in `image`, with the programs of this machine."""
    return ("--container", str(image), "--container-mount", "/usr:/usr:ro")


def hide_programs(node: Directory) -> None:
    """Let a node find no program on PATH."""
    python = node.path / "python3"
    python.write_text(python.read_text().replace("exec /usr/bin/python3", "PATH=/nowhere exec /usr/bin/python3"))
