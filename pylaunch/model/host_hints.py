"""Hints about single hosts, folded where they differ only in the host. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pylaunch.model.hostset import fold

_PLACE = "\0"


def folded(hints: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the hints of each host (`pylaunch trust --limit n1`), with hosts folded where nothing else differs."""
    hosts: dict[str, list[str]] = {}
    for host, texts in hints.items():
        name = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)")
        for text in texts:
            hosts.setdefault(name.sub(_PLACE, text), []).append(host)
    return tuple(text.replace(_PLACE, fold(names)) for text, names in hosts.items())
