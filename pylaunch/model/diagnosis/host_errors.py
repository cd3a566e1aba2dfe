"""Errors of hosts, folded where they differ only in the name or address of their own host. Pure.

ssh 10.0.0.1: no route     of n1
ssh 10.0.0.2: no route     of n2      → n[1-2]: ssh 10.0.0.[1-2]: no route
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from pylaunch.model.cluster import Host
from pylaunch.model.hostset import fold

MOST_ERRORS = 24
"""Different errors that one message lists; each may stand for many hosts."""

ADDRESSES_WIDTH = 40
"""Characters of folded addresses in the middle of an error; of more, only the first address is shown."""


class _Own(Enum):
    """Place in a text for the host that the text is about."""

    NAME = "name"
    ADDRESS = "address"


Template = tuple[str | _Own, ...]


class OwnNames:
    """Texts about single hosts, compared and shown without regard to which host it is."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        self._addresses = {host.name: host.address for host in hosts}

    def template(self, host: str, text: str) -> Template:
        """Return `text` with places for the name and the address of `host`."""
        names = {self._addresses.get(host, host): _Own.ADDRESS, host: _Own.NAME}
        either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        pieces = re.split(rf"(?<![\w.-])({either})(?![\w-]|\.\w)", text)
        return tuple(names.get(piece, piece) if place % 2 else piece for place, piece in enumerate(pieces))

    def filled(self, template: Template, hosts: Iterable[str]) -> str:
        """Return the text for all `hosts` together, their names and addresses folded."""
        names = list(hosts)
        addresses = [self._addresses.get(name, name) for name in names]
        all_addresses = fold(addresses)
        if len(all_addresses) > ADDRESSES_WIDTH and len(addresses) > 1:
            all_addresses = f"{addresses[0]}, …"
        own = {_Own.NAME: fold(names), _Own.ADDRESS: all_addresses}
        return "".join(own[piece] if isinstance(piece, _Own) else piece for piece in template)


def alike_errors(hosts: Iterable[Host], errors: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Return each error once with the folded hosts that have it, in the order of first occurrence.

    Beyond MOST_ERRORS different ones, the last entry stands for the others and names their hosts.
    """
    own = OwnNames(hosts)
    together: dict[Template, dict[str, None]] = {}
    for host, texts in errors.items():
        for text in texts:
            together.setdefault(own.template(host, text), {})[host] = None
    found = [(fold(names), own.filled(template, names)) for template, names in together.items()]
    if len(found) <= MOST_ERRORS:
        return found
    others = list(together.values())[MOST_ERRORS - 1 :]
    return [
        *found[: MOST_ERRORS - 1],
        (fold(name for names in others for name in names), f"{len(others)} more errors"),
    ]


def error_lines(hosts: Iterable[Host], reasons: Mapping[str, str]) -> list[str]:
    """Return "n[1-2]: REASON" for each of the `reasons` by host, as `alike_errors` folds them."""
    return [f"{names}: {text}" for names, text in alike_errors(hosts, {host: (why,) for host, why in reasons.items()})]


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
