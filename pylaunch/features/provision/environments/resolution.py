"""Resolution of requirements by pip, without their installation, and the hint for requirements without a wheel."""

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.text.argv import quoted
from pylaunch.transport import process

CONTROLLER_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_BLOCKER = re.compile(
    r"^ERROR: No matching distribution found for (?P<requirement>.+?)(?: \(from [^()]*\))?$", re.MULTILINE
)
_FOUND = re.compile(r"^ERROR: Could not find a version .*\(from versions: (?P<versions>.*)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Wheel:
    """A wheel that pip would install."""

    name: str
    version: str
    file: str
    sha256: str


def resolve(sources: Sequence[Path], python: str) -> list[Wheel]:
    """Return the wheels of requirements files for a version of Python, by name, and uv, which installs them.

    pip looks into the indexes and directories that it is configured for. Raises UsageError.
    """
    wheels = _resolved(python, [word for path in sources for word in ("--requirement", str(path))])
    if not any(wheel.name == "uv" for wheel in wheels):
        wheels += _resolved(python, ["--no-deps", f"uv=={version('uv')}"])
    return sorted(wheels, key=lambda wheel: wheel.name)


def _resolved(python: str, words: Sequence[str]) -> list[Wheel]:
    # With --python-version, pip still evaluates markers for its own version: the flag is omitted where they are equal.
    for_python = ["--python-version", python] if python != CONTROLLER_PYTHON else []
    with tempfile.TemporaryDirectory(prefix="pylaunch-") as scratch:
        report = Path(scratch) / "report.json"
        ended = process.run(
            (
                sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
                "--dry-run", "--ignore-installed", "--target", f"{scratch}/nothing", "--report", str(report),
                "--only-binary", ":all:", *for_python, *words,
            )
        )  # fmt: skip
        if not ended.ok:
            lines = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("[notice]")]
            given = " ".join(word for word in words if not word.startswith("-"))
            raise UsageError(
                f"pip cannot lock {given} for Python {python}", evidence=lines[-8:], hint=next_step(ended.stderr)
            )
        return read_report(report.read_text(encoding="utf-8"))


def read_report(text: str) -> list[Wheel]:
    """Return the wheels in what `pip install --dry-run --report` wrote. Raises UsageError for what is no wheel."""
    return [_wheel(each["metadata"], each["download_info"]) for each in json.loads(text)["install"]]


def _wheel(metadata: Mapping[str, str], download: Mapping[str, Any]) -> Wheel:
    file = Path(unquote(urlsplit(download["url"]).path)).name
    if not file.endswith(".whl"):
        name = metadata["name"]
        raise UsageError(f"{name} would be installed from {download['url']}, and only wheels can be locked",
                         hint=how_to_build(download["url"]))  # fmt: skip
    sha256 = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    if not isinstance(sha256, str):
        release = f"{metadata['name']}=={metadata['version']}"
        fetch = quoted(("pip", "download", "--no-deps", "--dest", "wheels", release))
        raise UsageError(f"the index gives no SHA-256 of {file}",
                         hint=f"{fetch}, then put the line --find-links wheels into the requirements")  # fmt: skip
    return Wheel(metadata["name"].lower(), metadata["version"], file, sha256)


def how_to_build(requirement: str) -> str:
    """Return the command that locks a requirement with only a source distribution."""
    build = quoted(("pip", "wheel", "--no-deps", "--wheel-dir", "wheels", requirement))
    return f"build one: {build}, then put the line --find-links wheels into the requirements"


def blocker(output: str) -> str | None:
    """Return the requirement for which pip found no wheel, in what it wrote to stderr; None for another failure."""
    found = _BLOCKER.search(output)
    return found["requirement"] if found is not None else None


def next_step(output: str) -> str:
    """Return the hint for a failure of pip, from what it wrote to stderr."""
    if "DO NOT MATCH THE HASHES" in output:
        return "if the new wheels are intended, write their hashes into the requirements; otherwise do not install them"
    if "ResolutionImpossible" in output:
        return "change one of the requirements that exclude each other"
    if (missing := blocker(output)) is not None:
        return (
            f"{_correct(missing, output)}; only wheels can be locked: if {missing} is source, {how_to_build(missing)}"
        )
    return "only wheels can be locked: a package without one for this Python and machine needs another version"


def _correct(requirement: str, output: str) -> str:
    """Return the advice to correct `requirement`, with the newest version that pip found."""
    found = _FOUND.search(output)
    versions = found["versions"].split(", ") if found is not None else []
    if not versions or versions == ["none"]:
        return f"correct the name {requirement}, or the index"
    return f"correct the version of {requirement}: the newest wheel for this Python and machine is {versions[-1]}"
