"""Releases that a lab's nodes can have besides that of this machine, and what vouches for their packages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pylaunch.errors import UsageError
from pylaunch.lab.recipe import Repository


@dataclass(frozen=True)
class LabRelease:
    """Who makes releases."""

    name: str
    pockets: tuple[tuple[str, str], ...]
    """The repositories of a release: what stands behind its codename, and the URI."""

    components: tuple[str, ...]
    keyring: Path
    """The keys that sign the archive. Nothing is built that they do not vouch for."""

    keyring_package: str
    script: str
    """debootstrap's script for releases that are younger than it."""


DEBIAN = LabRelease(
    "debian",
    (
        ("", "http://deb.debian.org/debian"),
        ("-updates", "http://deb.debian.org/debian"),
        ("-security", "http://deb.debian.org/debian-security"),
    ),
    ("main",),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    "debian-archive-keyring",
    "sid",
)
UBUNTU = LabRelease(
    "ubuntu",
    (
        ("", "http://archive.ubuntu.com/ubuntu"),
        ("-updates", "http://archive.ubuntu.com/ubuntu"),
        ("-security", "http://security.ubuntu.com/ubuntu"),
    ),
    ("main", "universe"),
    Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
    "ubuntu-keyring",
    "gutsy",
)

RELEASES = {"bookworm": DEBIAN, "trixie": DEBIAN, "jammy": UBUNTU, "noble": UBUNTU}
"""Codename → who makes it: the releases that the roles are for."""


def distribution(codename: str) -> LabRelease:
    """Who makes `codename`. Raises UsageError for a release that no lab can have."""
    try:
        return RELEASES[codename]
    except KeyError:
        raise UsageError(
            f"release {codename}: a lab can have that of this machine, {', '.join(RELEASES)}",
            hint="without --release, nodes have the release of this machine",
        ) from None


def repositories(codename: str, own: str, ours: Sequence[Repository]) -> tuple[Repository, ...]:
    """Where the packages of `codename` are: on the mirrors of this machine, whose release is `own`, if they have it.

    `ours` are this machine's repositories. A release of another distribution comes from where that publishes it.
    """
    maker = distribution(codename)
    if RELEASES.get(own) is maker:
        return tuple(Repository(each.uri, each.release.replace(own, codename), each.components) for each in ours)
    return tuple(Repository(uri, codename + pocket, maker.components) for pocket, uri in maker.pockets)
