"""Resolution of requirements by pip, before any download: sizes, and the hint for requirements without a wheel."""

import json
import re
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

from pylaunch.base.dataclass import dataclass
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import shown_size

ASKING = 8
"""Concurrent size requests."""

ANSWER_S = 5.0
LARGE = 1 << 29
"""Bytes from which a download is announced."""

_BLOCKER = re.compile(
    r"^ERROR: No matching distribution found for (?P<requirement>.+?)(?: \(from [^()]*\))?$", re.MULTILINE
)
_FOUND = re.compile(r"^ERROR: Could not find a version .*\(from versions: (?P<versions>.*)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Chosen:
    """A wheel that pip would take."""

    name: str
    url: str


def how_to_build(requirement: str) -> str:
    """Return the command that locks a requirement with only a source distribution."""
    build = quoted(("pip", "wheel", "--no-deps", "--wheel-dir", "wheels", requirement))
    return f"build one: {build}, then put the line --find-links wheels into the requirements"


def read_report(text: str) -> tuple[Chosen, ...]:
    """Return the wheels in what `pip install --dry-run --report` wrote."""
    return tuple(Chosen(each["metadata"]["name"], each["download_info"]["url"]) for each in json.loads(text)["install"])


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


def sizes(chosen: Sequence[Chosen]) -> dict[str, int | None]:
    """Return the bytes of every wheel that would be downloaded, by URL; None where its server does not say.

    Wheels in local directories are not among them.
    """
    urls = [each.url for each in chosen if each.url.startswith(("http://", "https://"))]
    with ThreadPoolExecutor(ASKING) as asking:
        return dict(zip(urls, asking.map(_size, urls), strict=True))


def _size(url: str) -> int | None:
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, ValueError, TypeError, HTTPException):
        return None


def announcement(chosen: Sequence[Chosen], size_of: dict[str, int | None]) -> str | None:
    """Return the announcement of a large download; None for a small one."""
    total = sum(size or 0 for size in size_of.values())
    cuda = [each for each in chosen if each.url in size_of and each.name.lower().startswith(("nvidia-", "triton"))]
    if total < LARGE and not cuda:
        return None
    unknown = sum(size is None for size in size_of.values())
    text = f"downloading up to {shown_size(total)} in {len(size_of)} wheels (less what pip has cached)"
    if unknown:
        text += f"; {unknown} more of unknown size"
    if cuda:
        of_cuda = sum(size_of[each.url] or 0 for each in cuda)
        text += (
            f"; {shown_size(of_cuda)} of it is CUDA ({len(cuda)} wheels): hosts without GPUs need none of it: name an"
            " index of CPU wheels (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS)"
        )
    return text
