"""Mask secrets in text that leaves this machine: known values, and values that a name or a form marks as secret. Pure.

It masks too much rather than too little: `max_token=5` loses its 5.
"""

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from pylaunch.model.secret import MASK, sounds_secret

SHORTEST = 6
"""Characters of the shortest known value that is masked; shorter ones would match unrelated text."""

_LONGEST_NAME = 80
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VALUE = r"""(?P<value>\\*"(?:[^"\\\n]|\\.){1,4096}|\\*'(?:[^'\\\n]|\\.){1,4096}|[^\s"']{1,4096})"""
_NAMED = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|apikey|credentials?|pat|key|pass)"
    r"""(?P<join>\\*["']?[ \t]{0,8}[=:][ \t]{0,8}|\\*["'],\s{0,8}|[ \t]{1,8})""" + _VALUE,
    re.IGNORECASE,
)
"""End of a name, what joins it with a value, and the value: NAME=VALUE, "name": "value", --name VALUE."""

_SHAPES = re.compile(
    r"(?P<before>://[^/@\s:]{0,256}:)[^/@\s]{1,256}(?=@)"  # user:password@ in a URL
    r"|(?P<scheme>\b(?:[Bb]earer|[Bb]asic)[ \t]{1,8})[A-Za-z0-9._~+/=-]{8,4096}"  # Authorization of HTTP
    r"|\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}"
    r"|\bsk-[\w-]{20,}|\bxox[abprs]-[\w-]{10,}"
    r"|\beyJ[\w-]{8,4096}\.eyJ[\w-]{8,4096}\.[\w-]{1,4096}"  # JSON web token
    r"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----(?:.{0,16384}?-----END [A-Z ]{0,32}PRIVATE KEY-----|.{0,16384})",
    re.DOTALL,
)


class Redaction:
    """Masks known secret values, and values after the name of a secret or of the shape of one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        lines = {line.strip() for value in values for line in value.splitlines()}
        forms = {form for line in lines if len(line) >= SHORTEST for form in _forms(line)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def hide(self, text: str) -> str:
        """Return `text` with every secret replaced by MASK."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _SHAPES.sub(lambda found: f"{found['before'] or found['scheme'] or ''}{MASK}", text)
        return _NAMED.sub(_masked, text)


def secrets_in(text: str) -> Iterator[str]:
    """Yield the values in `text` that the name of a secret introduces, without templates of Ansible and vault tags."""
    for found in _NAMED.finditer(text):
        if _is_secret(found):
            value = found["value"].lstrip("\\").strip("\"'")
            if "{{" not in value and not value.startswith(("!", "$", MASK)):
                yield value


def _masked(found: re.Match[str]) -> str:
    if not _is_secret(found):
        return found[0]
    value = found["value"]
    opening = value[: len(value) - len(value.lstrip("\\\"'"))][:3]
    return found[0][: found.start("value") - found.start()] + opening + MASK


def _is_secret(found: re.Match[str]) -> bool:
    """Return True if the whole name, which begins before the match, marks a secret and is joined with its value."""
    start, text = found.start(), found.string
    while start > 0 and text[start - 1] in _NAME and found.start() - start < _LONGEST_NAME:
        start -= 1
    name = text[start : found.start("join")]
    is_option = name.startswith("-")
    if not is_option and not found["join"].strip(" \t").strip("\\\"'").startswith(("=", ":")):
        return False
    words = _HUMP.sub("_", name.strip("-.")).replace("-", "_").replace(".", "_")
    return sounds_secret(words) or words.upper().endswith("_PASS")


def _forms(value: str) -> set[str]:
    """`value` as it is, in JSON, and in a URL."""
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(value, safe="")}
