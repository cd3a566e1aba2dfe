"""The documents as docs/reference/json.md describes them, to compare with real ones."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/reference/json.md"
ENVELOPE = {"schema_version", "verb", "time", "exit_code", "error"}
_ROW = re.compile(r"\| (`[^|]*`) \| (.*) \|")
_ABOUT_HOSTS = re.compile(r"(.*\.)?(hosts|nodes)(\[\]\.(host|unreachable))?")
"""Paths that the conventions of the page describe once."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?(\+00:00|Z)")


def sections() -> dict[str, list[tuple[str, str]]]:
    """The rows of the tables below each heading."""
    found: dict[str, list[tuple[str, str]]] = {}
    rows: list[tuple[str, str]] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            rows = found.setdefault(line[3:], [])
        elif row := _ROW.fullmatch(line):
            rows.extend((path.strip("`"), row[2]) for path in row[1].split(", "))
    return found


def described(section: str) -> set[str]:
    """Every path that the page has for a section, with the forms that it names."""
    paths: set[str] = set()
    for path, text in sections()[section]:
        paths.add(path)
        if form := re.fullmatch(r"\[([\w ]+)\]\(#[\w-]+\)", text):
            below = described(form[1].capitalize())
            paths |= {f"{path}.{each}" if path else each for each in below}
    return paths - {""}


def paths_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of every leaf; a list is `[]`."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from paths_of(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for each in value:
            yield from paths_of(each, f"{path}[]")
    else:
        yield path, value


def undescribed(document: dict[str, Any], section: str) -> set[str]:
    """Paths of `document` that the page does not have."""
    known = described("Envelope") | described(section)
    return {path for path, value in paths_of(document) if not _is_known(path, value, known)}


def _is_known(path: str, value: Any, known: set[str]) -> bool:
    if (
        path in known
        or _ABOUT_HOSTS.fullmatch(path)
        or any(each.endswith(".*") and path.startswith(each[:-1]) for each in known)
    ):
        return True
    # Of what is empty nothing can be seen but that it is there.
    return value in ([], {}) and any(each.startswith((f"{path}[]", f"{path}.")) for each in known)


def has_the_forms(document: dict[str, Any]) -> None:
    """Assert the envelope, a time zone in every timestamp, and one form for all statements about hosts."""
    assert document.keys() >= ENVELOPE
    assert document["schema_version"] == 1
    for path, value in paths_of(document):
        if path.split(".")[-1] in ("time", "created", "ended", "since", "began", "made_at", "attested_at"):
            assert value is None or isinstance(value, int | list) or _MOMENT.fullmatch(str(value)), (path, value)
    for entries in (document.get("hosts", []), document.get("nodes", [])):
        assert all(isinstance(each, str) or {"host", "unreachable"} <= each.keys() for each in entries), entries


def documented(text: str, section: str) -> dict[str, Any]:
    """Return the document in `text`, of a stream the last. Asserts that all are as `section` of the page says."""
    is_stream = not text.startswith("{\n")
    documents: list[dict[str, Any]] = [json.loads(each) for each in (text.splitlines() if is_stream else [text])]
    for document in documents:
        has_the_forms(document)
        assert undescribed(document, section) == set()
    return documents[-1]
