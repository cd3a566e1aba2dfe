"""Content of the package: signatures, and the playbooks and roles, at the top of a checkout or inside the package."""

from functools import cache
from importlib import resources
from pathlib import Path

import pylaunch
from pylaunch.errors import PylaunchError
from pylaunch.verdict.logs.signature import SignatureCatalogue, SignatureSource, parse_catalogue, parse_sources


def content_directory() -> Path:
    """Return the directory that holds `playbooks/` and `roles/`.

    Raises PylaunchError when neither place has them: the package was built without them.
    """
    package = Path(pylaunch.__file__).resolve().parent
    candidates = (package / "content", package.parent)
    for candidate in candidates:
        if (candidate / "playbooks").is_dir() and (candidate / "roles").is_dir():
            return candidate
    raise PylaunchError(
        "this installation of pylaunch has no playbooks and no roles",
        evidence=[f"looked in {candidate}" for candidate in candidates],
        hint="install it from a wheel or run it from a checkout",
    )


def playbook(name: str) -> Path:
    """Return the playbook `name`, without its suffix: `playbook("site")`."""
    return content_directory() / "playbooks" / f"{name}.yml"


def specifications_directory() -> Path:
    """Return the directory of the tests that `pylaunch verify` runs."""
    return content_directory() / "verify"


def roles_directory() -> Path:
    """Return the directory with one subdirectory per role."""
    return content_directory() / "roles"


@cache
def signatures() -> SignatureCatalogue:
    """Return the signatures of `pylaunch/verdict/signatures/*.toml`."""
    folder = resources.files("pylaunch.verdict") / "signatures"
    files = [each for each in folder.iterdir() if each.name.endswith(".toml")]
    return parse_catalogue({each.name.removesuffix(".toml"): each.read_text(encoding="utf-8") for each in files})


@cache
def signature_sources() -> dict[str, SignatureSource]:
    """Return examples and sources of the signatures by their ids, which no verdict needs."""
    file = resources.files("pylaunch.verdict") / "signature_sources.toml"
    return parse_sources(file.read_text(encoding="utf-8"))
