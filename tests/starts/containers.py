"""Images of the programs of this machine, in which ranks start as in any other image."""

import base64
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from tests.starts.cluster import Directory

_SIF_START = (
    "eNrt2D0vQ1EcB+BTBDFZLeJlMlSrk5iIt3QQEh9Aikau6kVvKzEYDbZuNrNJbP0sZl/AZNabXklrsUkaz5Pc/G5yt3N+55+c"
    "uzhfaCWNwnEUF6rxzVyjFeeTKD5rXVQaUfN2KhyWd472NnbLm6G4EoqlsNbZv649b3UePlffZ59K99svE7XQ9Z350FPMMkz3"
    "4rWe5V0vDxYCAAAA8Edy690nl76E8NF/QV8Kg/nzog/9xtMijfQV6S0r0uPkYP5WpChOrqonzXy92qycVpqV5fPkMra+/8ZY"
    "WqTRviKFdvYl+5XYnhmOiZRO1fRAFEs2FQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAYGh8AZqCNks="
)
"""Header and descriptors of a SIF of apptainer 1.4.5 (`apptainer build image.sif DIRECTORY`), up to its squashfs."""

SIF_ROOT = 4096 + 2 * 585
"""Place of the descriptor of the root directory there."""

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


def sif_of(squashfs: bytes) -> bytes:
    """Return a SIF with the root directory `squashfs`."""
    start = bytearray(zlib.decompress(base64.b64decode(_SIF_START)))
    struct.pack_into("<q", start, SIF_ROOT + 25, len(squashfs))
    return bytes(start) + squashfs


def hide_programs(node: Directory) -> None:
    """Let a node find no program on PATH."""
    python = node.path / "python3"
    python.write_text(python.read_text().replace("exec /usr/bin/python3", "PATH=/nowhere exec /usr/bin/python3"))
