"""Judge variables that are set somewhere: names that nothing reads, values that break a job, debug settings. Pure.

Names and values are data (`catalogue.toml`). A value is shown only where its variable is known: what somebody put under
another name may be a secret.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pkgutil import get_data
from tomllib import loads
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.model.setting import INTERFACE, Circumstances, LintFinding, LintLevel, Setting

_ONE_SLIP = 0.92
"""Likeness of two names that differ by one or two letters."""

_OFF = ("", "0", "false", "off", "no", "n", "f")
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_OWN_ADDRESSES = ("VLLM_HOST_IP", "SGLANG_HOST_IP", "HOST_IP", "POD_IP")
"""Variables in which a program expects the address of its own node."""

_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")


@dataclass(frozen=True)
class Catalogue:
    """Names by what is known about them."""

    complete: tuple[str, ...]
    """Beginnings of names that are known completely."""

    read: frozenset[str]
    """Names that something reads."""

    unread: Mapping[str, str]
    """Name that nothing reads → what to write instead, or ""."""

    debug_only: frozenset[str]
    values: Mapping[str, Mapping[str, Any]]

    def complaint(self, name: str, value: str) -> str | None:
        """Return the problem with a value; None for a right one, and for a name whose values are not judged."""
        rule = self.values.get(name, {})
        if "range" in rule:
            low, high = rule["range"]
            is_right = _NUMBER.fullmatch(value) and low <= int(value, 16 if "x" in value.lower() else 10) <= high
            return None if is_right else f"expected {_words_of(low, high)}"
        if "words" in rule:
            words = rule["words"].split()
            return None if value.upper() in map(str.upper, words) else f"expected one of {', '.join(words)}"
        pattern = rule.get("pattern", ".*").replace("INTERFACE", INTERFACE)
        return None if re.fullmatch(pattern, value, re.DOTALL) else f"expected {rule['expected']}"


def _words_of(low: int, high: int) -> str:
    return "0 or 1" if (low, high) == (0, 1) else f"a whole number {low} … {high}"


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of `catalogue.toml`."""
    data = loads((get_data(__name__.rpartition(".")[0], "catalogue.toml") or b"").decode())
    read = frozenset(name for each in data["source"] for name in each["names"].split())
    debug_only = frozenset(data["debug_only"].split())
    return Catalogue(tuple(data["complete"]), read, data["unread"], debug_only, data["values"])


def judge(settings: Sequence[Setting], circumstances: Circumstances | None = None) -> tuple[LintFinding, ...]:
    """Return all findings about `settings`, in their order."""
    known = circumstances or Circumstances()
    return tuple(finding for setting in settings for finding in _findings(setting, known, catalogue()))


def _findings(setting: Setting, known: Circumstances, names: Catalogue) -> Iterator[LintFinding]:
    name = setting.name
    if name in names.read:
        yield from _of_known(setting, known, names)
    elif name in names.unread:
        text = "nothing reads it, unless your own program does"
        yield LintFinding(LintLevel.WARNING, setting.where, name, text, names.unread[name] or None)
    elif name.startswith(names.complete):
        yield _unknown(setting, names)
    elif name in _OWN_ADDRESSES and known.are_several:
        text = f"the address of one machine, on all {known.machines}: each has its own"
        instead = "set it in the program, from the address of the node"
        yield LintFinding(LintLevel.WARNING, setting.where, f"{name}={setting.value}", text, instead)


def _unknown(setting: Setting, names: Catalogue) -> LintFinding:
    meant = get_close_matches(setting.name, names.read, n=1, cutoff=_ONE_SLIP)
    if meant:
        return LintFinding(LintLevel.ERROR, setting.where, setting.name, "no such variable", meant[0])
    text = "not known here: a plug-in's, newer than this list, or a mistake"
    return LintFinding(LintLevel.WARNING, setting.where, setting.name, text)


def _of_known(setting: Setting, known: Circumstances, names: Catalogue) -> Iterator[LintFinding]:
    name, value = setting.name, setting.value

    def found(level: LintLevel, message: str, instead: str | None = None) -> LintFinding:
        return LintFinding(level, setting.where, f"{name}={value}", message, instead)

    if value and (problem := names.complaint(name, value)) is not None:
        yield found(LintLevel.ERROR, problem)
    elif name in _INTERFACES and value.removeprefix("=") == "lo" and known.are_several:
        text = f"no other machine can be reached over lo, and these are {known.machines}"
        yield found(LintLevel.ERROR, text, "the interface that leads to the other nodes")
    elif known.debug is None:
        return
    elif name in names.debug_only and value.lower() not in _OFF:
        text = "for debugging: not to be kept, where it makes later jobs slow or makes them fail"
        yield found(known.debug, text, f"--env {name}={value} for one job")
    elif name == "NCCL_DEBUG" and value.upper() in ("INFO", "TRACE"):
        text = "kept for every job, it fills the logs of every rank"
        yield found(LintLevel.WARNING, text, "NCCL_DEBUG=WARN, and --env NCCL_DEBUG=INFO for one job")
