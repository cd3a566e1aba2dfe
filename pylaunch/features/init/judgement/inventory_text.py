"""The text of an annotated inventory, in Ansible's INI format. Pure."""

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from pylaunch.errors import UsageError
from pylaunch.features.init.judgement.choices import FoundHost, ProposedValue, summary_of
from pylaunch.model.cluster import Connection, Host
from pylaunch.model.hostset import alike
from pylaunch.model.text.sanitise import visible_line

WIDTH = 100
"""Columns of a comment."""

_KEPT = (
    ("interface", "interface"),
    ("fabric_address", "fabric_address"),
    ("python", "pylaunch_python"),
    ("agent_python", "pylaunch_agent_python"),
    ("node_root", "pylaunch_node_root"),
    ("env_root", "pylaunch_env_root"),
)
"""Fields of a host that the inventory of the source may have set, and their keys."""


def inventory_text(
    heading: Sequence[str],
    found: Sequence[FoundHost],
    choices: Sequence[ProposedValue],
    remarks: Sequence[str],
    left_out: Mapping[str, str],
) -> str:
    """Return the inventory: hosts with what differs, values that all share below them, each after its reason.

    `left_out` has the reasons of hosts that could not be examined; they are comments.
    """
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
    if left_out:
        lines += ["", *_comments(("These hosts could not be examined. Remove the # when they answer:",))]
        for name, reason in left_out.items():
            lines += [f"#{name}", *_comments((f"  {reason}",))]
    lines += ["", "[cluster:vars]"]
    for choice in choices:
        lines += _comments(choice.why)
        lines += [f"{choice.key}={_plain(shared[choice.key])}"] if choice.key in shared else []
        lines += [""] if choice.why else []
    return "\n".join([*lines, *_comments(remarks)]).rstrip() + "\n"


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
    """Return the variables of the connection to `host`, and those that its own inventory sets."""
    ssh = host.ssh
    words = [
        ("ansible_host", host.address if host.address != host.name else None),
        ("ansible_connection", "local" if host.connection is Connection.LOCAL else None),
        ("ansible_user", ssh.user),
        ("ansible_port", ssh.port),
        ("ansible_ssh_private_key_file", ssh.private_key),
        ("ansible_ssh_common_args", shlex.join(ssh.common_args) or None),
        ("devices", ",".join(map(str, host.devices)) or None),
        ("topology", "/".join(host.topology) or None),
    ]
    if host.attestation is not Host.attestation:
        words.append(("pylaunch_attestation", host.attestation.value))
    for field, key in _KEPT:
        value = getattr(host, field)
        words.append((key, value if value != getattr(Host, field) else None))
    return [f"{key}={shlex.quote(str(value))}" for key, value in words if value is not None]
