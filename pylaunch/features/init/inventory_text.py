"""The text of an annotated inventory, in Ansible's INI format. Pure."""

import shlex
import textwrap
from collections.abc import Iterable, Sequence

from pylaunch.errors import UsageError
from pylaunch.features.init.choices import FoundHost, ProposedValue, summary_of
from pylaunch.model.cluster import Host
from pylaunch.model.hostset import alike
from pylaunch.model.text.sanitise import visible_line

WIDTH = 100
"""Columns of a comment."""


def inventory_text(heading: Sequence[str], found: Sequence[FoundHost], choices: Sequence[ProposedValue]) -> str:
    """Return the inventory: hosts with what differs, values that all share below them, each after its reason."""
    shared = {each.key: value for each in choices if (value := _shared(each, found)) is not None}
    lines = [*_comments(heading), "", "[cluster]"]
    lines += _comments(f"{who}: {what}" for who, what in alike({each.host.name: [summary_of(each)] for each in found}))
    for each in found:
        own = [
            f"{c.key}={shlex.quote(_plain(c.values[each.host.name]))}"
            for c in choices
            if each.host.name in c.values and c.key not in shared
        ]
        lines.append(" ".join([each.host.name, *_connection(each.host), *own]))
    lines += ["", "[cluster:vars]"]
    for choice in choices:
        lines += _comments(choice.why)
        lines += [f"{choice.key}={_plain(shared[choice.key])}"] if choice.key in shared else []
        lines += [""] if choice.why else []
    return "\n".join(lines).rstrip() + "\n"


def _comments(texts: Iterable[str]) -> list[str]:
    """Return comments of at most `WIDTH` columns, broken between words."""
    wrapped = (
        textwrap.wrap(
            visible_line(text), WIDTH, initial_indent="# ", subsequent_indent="#   ",
            break_long_words=False, break_on_hyphens=False,
        )
        for text in texts
    )  # fmt: skip
    return [line for lines in wrapped for line in lines]


def _shared(choice: ProposedValue, found: Sequence[FoundHost]) -> str | None:
    """Return the value that all hosts have; None if they differ."""
    values = {choice.values.get(each.host.name) for each in found}
    return values.pop() if len(values) == 1 else None


def _plain(value: str) -> str:
    """Return a value that was found, if it is one line without a template. Raises UsageError for another one."""
    if visible_line(value) != value or "{" in value or "#" in value:
        raise UsageError(f"the value {value!r} cannot be written into an inventory")
    return value


def _connection(host: Host) -> list[str]:
    """Return the variables of the connection to `host`."""
    words = {
        "ansible_host": host.address if host.address != host.name else None,
        "ansible_user": host.ssh.user,
        "ansible_port": host.ssh.port,
    }
    return [f"{key}={shlex.quote(str(value))}" for key, value in words.items() if value is not None]
