"""Releases for a lab's nodes other than this machine's, and the keys that sign their packages. Pure."""

from collections.abc import Sequence
from pathlib import Path

from lab.images.recipe import Repository
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError


@dataclass(frozen=True)
class LabRelease:
    """A distribution."""

    name: str
    pockets: tuple[tuple[str, str], ...]
    """The repositories of a release: suffix of the codename, and the URI."""

    components: tuple[str, ...]
    keyring: Path
    """Keys that sign the archive; debootstrap verifies packages with them."""

    keyring_package: str
    script: str
    """debootstrap's script, for releases that are newer than debootstrap."""


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
"""Codename → distribution: the releases that the roles support."""


def distribution(codename: str) -> LabRelease:
    """Return the distribution of `codename`. Raises UsageError for an unsupported release."""
    try:
        return RELEASES[codename]
    except KeyError:
        raise UsageError(
            f"release {codename}: a lab can have that of this machine, {', '.join(RELEASES)}",
            hint="without --release, nodes have the release of this machine",
        ) from None


def repositories(codename: str, own: str, ours: Sequence[Repository]) -> tuple[Repository, ...]:
    """Return the repositories of `codename`: the mirrors of this machine, whose release is `own`, if they have it.

    `ours` are this machine's repositories. A release of another distribution comes from where that publishes it.
    """
    maker = distribution(codename)
    if RELEASES.get(own) is maker:
        return tuple(Repository(each.uri, each.release.replace(own, codename), each.components) for each in ours)
    return tuple(Repository(uri, codename + pocket, maker.components) for pocket, uri in maker.pockets)
