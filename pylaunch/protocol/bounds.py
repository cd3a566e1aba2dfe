"""Bounds of the values in messages to the agent: values of the right type that no system call could take."""

from __future__ import annotations

import signal
from typing import Any, Iterable, Iterator

from pylaunch import protocol
from pylaunch.base.layout import RUN_ID

LONGEST_S = 1e9
"""About thirty years, in seconds."""

LARGEST = 1 << 62
MOST_DEVICES = 4096
MOST_MOUNTS = 256
SHORTEST_USAGE_S = 0.01
LONGEST_EXAMINATION_S = 10.0
NOTICES = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
"""Signals that ask a rank for a checkpoint."""


def checked(message: object) -> object:
    """Return `message`. Raises WireError for a value that is out of bounds."""
    for where, value, is_within in _bounded_values(message):
        if not is_within:
            raise protocol.WireError(f"{type(message).__name__}.{where}: out of bounds: {str(value)[:100]!r}")
    return message


def _bounded_values(message: object) -> Iterator[tuple[str, Any, bool]]:
    """Yield the field, the value and whether it is within bounds, for each bounded value of `message`."""
    if isinstance(message, protocol.Prepare):
        yield from _task_values(message.task)
        yield from _variables("secrets", message.secrets)
    elif isinstance(message, (protocol.Release, protocol.TryPeers)):
        for port in message.ports.values():
            yield "ports", port, 0 <= port <= 65535
        if isinstance(message, protocol.Release):
            chosen = message.rendezvous_port
            yield "rendezvous_port", chosen, chosen is None or 0 < chosen <= 65535
            yield "key", "", _is_hexadecimal(message.key)
    elif isinstance(message, protocol.Follow):
        yield from _follow_values(message)
    elif isinstance(message, protocol.Examine):
        yield "serial", message.serial, 0 < message.serial <= LARGEST
        yield "within_s", message.within_s, 0 < message.within_s <= LONGEST_EXAMINATION_S
    elif isinstance(message, protocol.Notify):
        yield "signal", message.signal, message.signal in NOTICES
    elif isinstance(message, protocol.Stop):
        yield "grace_s", message.grace_s, 0 <= message.grace_s <= LONGEST_S


def _follow_values(message: protocol.Follow) -> Iterator[tuple[str, Any, bool]]:
    for offset in message.offsets.values():
        yield "offsets", offset, 0 <= offset <= LARGEST
    for where, count in (("tail", message.tail), ("lag", message.lag)):
        yield where, count, count is None or 0 <= count <= LARGEST
    for where, interval in (("usage_s", message.usage_s), ("activity_s", message.activity_s)):
        yield where, interval, not interval or SHORTEST_USAGE_S <= interval <= LONGEST_S


def _task_values(task: protocol.NodeTask) -> Iterator[tuple[str, Any, bool]]:
    yield "run", task.run, bool(RUN_ID.match(task.run))
    yield "hold_port", task.hold_port, task.hold_port is None or 0 < task.hold_port <= 65535
    yield "devices", len(task.devices), len(task.devices) <= MOST_DEVICES
    for index in task.devices:
        yield "devices", index, 0 <= index <= 1 << 20
    for where, seconds in (
        ("grace_s", task.grace_s), ("stop_grace_s", task.stop_grace_s), ("node_timeout_s", task.node_timeout_s),
    ):  # fmt: skip
        yield where, seconds, 0 <= seconds <= LONGEST_S
    yield "log_limit", task.log_limit, 0 <= task.log_limit <= LARGEST
    for rank in task.ranks:
        yield "rank", rank.rank, 0 <= rank.rank <= LARGEST
        yield "argv", rank.argv, bool(rank.argv)
        yield from _texts("argv", rank.argv)
        yield from _variables("env", rank.env)
    yield from _variables("env", task.env)
    yield from _texts("launcher", task.launcher)
    if task.container is not None:
        mounts = task.container.mounts
        yield "mounts", len(mounts), len(mounts) <= MOST_MOUNTS
        for path in (task.container.image, *(path for each in mounts for path in (each.source, each.target))):
            yield "container", path, path.startswith("/") and "\0" not in path and ".." not in path.split("/")
    yield from _texts("needs", (need.path for need in task.needs))
    for where, text in (("workdir", task.workdir), ("python", task.python), ("env_file", task.env_file or "")):
        yield from _texts(where, (text,))


def _variables(where: str, variables: dict[str, str]) -> Iterator[tuple[str, Any, bool]]:
    for name, value in variables.items():
        yield where, name, bool(name) and "=" not in name and "\0" not in name
        yield where, name, "\0" not in value


def _texts(where: str, texts: Iterable[str]) -> Iterator[tuple[str, Any, bool]]:
    for text in texts:
        yield where, text, "\0" not in text


def _is_hexadecimal(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True
