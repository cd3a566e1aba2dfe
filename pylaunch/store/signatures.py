"""Signatures of failures that the package contains, read once."""

from functools import cache
from importlib import resources

from pylaunch.verdict.logs.signature import SignatureCatalogue, parse_catalogue


@cache
def signatures() -> SignatureCatalogue:
    """Return the signatures of `pylaunch/verdict/signatures/*.toml`."""
    folder = resources.files("pylaunch.verdict") / "signatures"
    files = [each for each in folder.iterdir() if each.name.endswith(".toml")]
    return parse_catalogue({each.name.removesuffix(".toml"): each.read_text(encoding="utf-8") for each in files})
