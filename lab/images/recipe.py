"""The inputs of a node image, read from the controller's own apt settings. Pure."""

import hashlib
import re

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.errors import LabError

PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "iputils-ping",
    "libfaketime",
    "nftables",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
)
ADDITIONS = {"slurm": ("munge", "slurm-client", "slurmctld", "slurmd")}
"""Packages of each addition to an image."""

USER = "ml"
"""A user other than root, for tests of sudo."""

REVISION = 1
"""Number to raise when the build steps change."""

TARGET_FORMAT = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
_APT_SETTINGS = re.compile(r"Acquire::(http|https|Retries|Check-Valid-Until|Check-Date|Languages)\b.* \".+\";")


@dataclass(frozen=True)
class Repository:
    """One line of an apt source list."""

    uri: str
    release: str
    components: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line of the source list."""
        return f"deb {self.uri} {self.release} {' '.join(self.components)}"


@dataclass(frozen=True)
class Recipe:
    """All inputs of an image."""

    codename: str
    repositories: tuple[Repository, ...]
    """The first is the one to bootstrap from; the others are its updates."""

    apt_settings: tuple[str, ...]
    certificates: tuple[tuple[str, str], ...]
    """CA certificates that the controller trusts beyond the distribution's: file name and PEM text."""

    addition: str | None = field(default=None, repr=False)
    """An addition to the image of the same recipe without one."""

    @property
    def base(self) -> "Recipe":
        """The recipe without its addition."""
        return replace(self, addition=None)

    @property
    def digest(self) -> str:
        """Hash of the whole recipe."""
        inputs = repr((REVISION, PACKAGES, USER, self)).encode()
        if self.addition is not None:
            inputs += repr((self.addition, ADDITIONS[self.addition])).encode()
        return hashlib.sha256(inputs).hexdigest()[:16]


def repositories(codename: str, targets: str) -> tuple[Repository, ...]:
    """Return the distribution's own repositories from the lines of `apt-get indextargets` (in TARGET_FORMAT).

    Raises LabError when none of them is the release `codename` itself.
    """
    components: dict[tuple[str, str], list[str]] = {}
    for line in targets.splitlines():
        uri, release, component = line.split("|")
        known = components.setdefault((uri, release), [])
        if component not in known:
            known.append(component)
    ours = [
        Repository(uri, release, tuple(parts))
        for (uri, release), parts in components.items()
        if release == codename or release.startswith(f"{codename}-")
    ]
    ours.sort(key=lambda repository: repository.release != codename)
    if not ours or ours[0].release != codename:
        raise LabError(
            f"apt on this machine has no repository for {codename}, its own release",
            evidence=[f"{uri} {release}" for uri, release in components] or ["apt-get indextargets is empty"],
            hint="check the files in /etc/apt/sources.list.d, then: apt-get update",
        )
    return tuple(ours)


def apt_settings(dump: str) -> tuple[str, ...]:
    """Return the lines of `apt-config dump` about fetching packages: proxies, retries, date checks."""
    return tuple(line for line in dump.splitlines() if _APT_SETTINGS.fullmatch(line))


def codename(os_release: str) -> str:
    """Return VERSION_CODENAME of /etc/os-release. Raises LabError when it is missing."""
    match = re.search(r'^VERSION_CODENAME="?([\w-]+)"?$', os_release, re.MULTILINE)
    if match is None:
        raise LabError("release of this system unknown: no VERSION_CODENAME in /etc/os-release")
    return match.group(1)
