"""The image that all nodes share: built once with debootstrap, and again when its recipe changes."""

import contextlib
from collections.abc import Collection
from pathlib import Path

from lab import locks, slurm, spec
from lab.images import recipe, releases
from lab.images.recipe import Recipe
from lab.images.tools import Report
from lab.spec import IMAGES
from pylaunch.base.dataclass import replace
from pylaunch.errors import LabError
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process

CERTIFICATES = Path("/usr/local/share/ca-certificates")
SCRIPTS = Path("/usr/share/debootstrap/scripts")

_ISOLATED: Argv = (
    "setpriv", "--pdeathsig", "KILL",
    "unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child=KILL", "--",
)  # fmt: skip
"""Run in namespaces that end with this process: a killed build leaves no mount and no process."""


def controller_recipe(release: str | None = None) -> Recipe:
    """Return the recipe for `release` (None: this machine's), with the mirrors and CA certificates of this machine."""
    own = controller_codename()
    targets = process.run(
        ("apt-get", "indextargets", "--format", recipe.TARGET_FORMAT, "Created-By: Packages")
    ).checked(error=LabError)
    settings = process.run(("apt-config", "dump")).checked(error=LabError)
    codename = release or own
    ours = recipe.repositories(own, targets.stdout)
    return Recipe(
        codename,
        ours if codename == own else releases.repositories(codename, own, ours),
        recipe.apt_settings(settings.stdout),
        tuple((path.name, path.read_text()) for path in sorted(CERTIFICATES.glob("**/*.crt"))),
    )


def controller_codename() -> str:
    """Return the codename of this machine's release."""
    return recipe.codename(Path("/etc/os-release").read_text())


def ready_image(report: Report, release: str | None = None, addition: str | None = None) -> Path:
    """Return the image of `release` (None: this machine's) with `addition`; build it if it does not exist."""
    wanted = replace(controller_recipe(release), addition=addition)
    image = _path(wanted)
    if image.exists():
        return image
    IMAGES.mkdir(parents=True, exist_ok=True)
    with locks.changing("image"):
        if not _path(wanted.base).exists():
            build(wanted.base, _path(wanted.base), report)
        if not image.exists():
            _build_addition(wanted, image, report)
        _prune({image, _path(wanted.base)}, wanted.codename)
    return image


def _path(wanted: Recipe) -> Path:
    return IMAGES / f"image-{wanted.digest}"


def _build_addition(wanted: Recipe, image: Path, report: Report) -> None:
    """Copy the image without the addition and install the packages there. Call it with the images locked."""
    assert wanted.addition is not None
    packages = recipe.ADDITIONS[wanted.addition]
    aside = image.with_name("unfinished")
    _remove(aside)
    report(f"building the node image with {wanted.addition} once: {' '.join(packages)}")
    process.run(("cp", "--archive", "--reflink=auto", str(_path(wanted.base)), str(aside))).checked(error=LabError)
    (aside / "etc/resolv.conf").write_text(resolver_settings(report))
    _inside(aside, "apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)
    _inside(aside, "apt-get", "clean")
    if wanted.addition == slurm.ADDITION:
        _inside(aside, "systemctl", "disable", *slurm.SERVICES)
    aside.rename(image)


def build(wanted: Recipe, image: Path, report: Report) -> None:
    """Build `image` under another name and rename it. Call it with the images locked."""
    # The lock is held, so an unfinished image is the rest of a killed build.
    aside = image.with_name("unfinished")
    _remove(aside)
    base = wanted.repositories[0]
    options, script = _foreign(wanted.codename) if wanted.codename != controller_codename() else ((), ())
    report(f"building the node image once ({wanted.codename}, debootstrap): about a minute")
    process.run(
        (
            *_ISOLATED, "debootstrap", "--variant=minbase", f"--include={','.join(recipe.PACKAGES)}",
            f"--components={','.join(base.components)}", *options, base.release, str(aside), base.uri, *script,
        )
    ).checked(error=LabError, hint=f"tail {aside}/debootstrap/debootstrap.log")  # fmt: skip
    _configure(wanted, aside)
    report("reading the package lists into the image")
    resolver = resolver_settings(report)
    (aside / "etc/resolv.conf").write_text(resolver)
    _inside(aside, "update-ca-certificates")
    _inside(aside, "apt-get", "update", "-q")
    aside.rename(image)


def _foreign(codename: str) -> tuple[Argv, Argv]:
    """Return options and script of debootstrap for a release other than this machine's.

    Raises LabError if the keys of the release are missing: an unsigned release is not built.
    """
    maker = releases.distribution(codename)
    if not maker.keyring.is_file():
        raise LabError(
            f"release {codename}: this machine has no keys to verify its packages",
            evidence=[f"{maker.keyring} does not exist"],
            hint=f"apt-get install {maker.keyring_package}, or take the file from a system that has that package",
        )
    return (f"--keyring={maker.keyring}",), (str(SCRIPTS / maker.script),)


def _prune(newest: Collection[Path], codename: str) -> None:
    """Remove images of the same release that no lab uses, except `newest` and additions to them."""
    kept = [spec.load(name).machines for name in spec.names()]
    used = {machines.image for machines in kept if machines is not None} | set(map(str, newest))
    used |= {str(_path(replace(controller_recipe(codename), addition=each))) for each in recipe.ADDITIONS}
    for image in IMAGES.glob("image-*"):
        if str(image) not in used and recipe.codename((image / "etc/os-release").read_text()) == codename:
            _remove(image)


def _configure(wanted: Recipe, root: Path) -> None:
    (root / "etc/apt/sources.list").write_text("".join(f"{each.line}\n" for each in wanted.repositories))
    (root / "etc/apt/apt.conf.d/90controller").write_text("".join(f"{line}\n" for line in wanted.apt_settings))
    for name, text in wanted.certificates:
        (root / "usr/local/share/ca-certificates" / name).write_text(text)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    with contextlib.suppress(FileNotFoundError):
        (root / "etc/hostname").unlink()
    _inside(root, "useradd", "--create-home", "--shell", "/bin/bash", recipe.USER)
    # A locked password ("!") would make sshd refuse keys where PAM is off; "*" only means that no password fits.
    _inside(root, "usermod", "--password", "*", recipe.USER)
    sudoers = root / "etc/sudoers.d" / recipe.USER
    sudoers.write_text(f"{recipe.USER} ALL=(ALL) NOPASSWD: ALL\n")
    sudoers.chmod(0o440)
    _inside(root, "systemctl", "enable", "systemd-networkd.service", "ssh.service")


def resolver_settings(report: Report) -> str:
    """Return resolv.conf for nodes: the controller's, unless only the controller can reach its name servers."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        text = path.read_text() if path.exists() else ""
        servers = [line.split()[1] for line in text.splitlines() if line.startswith("nameserver ")]
        if any(not server.startswith(("127.", "::1")) for server in servers):
            return text
    report("nodes cannot reach a name server of this machine: names will not resolve there")
    return ""


def _inside(root: Path, *argv: str) -> None:
    process.run((*_ISOLATED, "chroot", str(root), *argv), env={"DEBIAN_FRONTEND": "noninteractive"}).checked(
        error=LabError
    )


def _remove(directory: Path) -> None:
    process.run(("rm", "-rf", "--one-file-system", "--", str(directory))).checked(error=LabError)
