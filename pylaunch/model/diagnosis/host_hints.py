"""Hints about single hosts, folded where they differ only in the host. Pure."""

import re
from collections.abc import Iterable, Mapping

from pylaunch.model.cluster import Host
from pylaunch.model.hostset import fold

BY_HAND = "try it by hand: "
"""Text before a command that contains the address of its host."""

_PLACE = "\0"


def agent_python(host: Host) -> str:
    """Return the hint for a host without a working interpreter for the agent; Ansible installs only the usual one."""
    if host.agent_python == Host.agent_python:
        return f"install python3 on {host.name} (apt-get, or pylaunch provision), or set its pylaunch_agent_python"
    return f"correct pylaunch_agent_python or ansible_python_interpreter of {host.name} in the inventory"


def of_hosts(hints: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the hints of the hosts that have one, folded."""
    return folded({host: (hint,) for host, hint in hints.items() if hint})


def folded(hints: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the hints of each host (`pylaunch trust --limit n1`), with hosts folded where nothing else differs.

    Of commands to try by hand, the first one is shown for all of their hosts.
    """
    hosts: dict[str, list[str]] = {}
    by_hand: dict[str, dict[str, str]] = {}
    for host, texts in hints.items():
        name = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)")
        for text in texts:
            before, is_command, command = text.partition(BY_HAND)
            if is_command:
                by_hand.setdefault(before, {}).setdefault(host, f"{BY_HAND}{command}")
                continue
            hosts.setdefault(name.sub(_PLACE, text), []).append(host)
    others = tuple(text.replace(_PLACE, fold(names)) for text, names in hosts.items())
    tries = (
        f"{before}{f'{fold(texts)}: ' if len(texts) > 1 else ''}{next(iter(texts.values()))}"
        for before, texts in by_hand.items()
    )
    return (*tries, *others)
