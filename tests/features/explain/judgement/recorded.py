"""Recorded logs: each case has its text beside the verdict that is right."""

import tomllib
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[3] / "cases"


def recorded(name: str) -> dict[str, dict[str, Any]]:
    """Return the cases of a file, or of all files of a folder, by their names."""
    path = CASES / name
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    found = [each for file in files for each in tomllib.loads(file.read_text(encoding="utf-8")).items()]
    cases = dict(found)
    assert len(cases) == len(found), "two cases have one name"
    return cases


def texts_of(cases: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    """Return the log of each case as bytes, as a reader of files gets it."""
    return {name: case["text"].encode() for name, case in cases.items()}
