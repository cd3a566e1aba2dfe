"""Template that stays on a node after a failure, so that the ranks of the next attempt need not import again.

It holds the imported modules and the channel to its agent, nothing else: no file, port, device or lease of an attempt.
The kernel ends it with its agent (PR_SET_PDEATHSIG), and it carries the mark of the attempt that it belongs to, so
`clean` and `stop` end it like any process of a run.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket

from pylaunch.agent import wire
from pylaunch.agent.in_rank.template import LARGEST_PACKET, MARK, MARKED
from pylaunch.agent.shared.dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

ANSWER_S = 5.0

AT_PROCESS_START = (
    "LD_", "PYTHON", "MALLOC_", "GLIBC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_"
)  # fmt: skip
"""Beginnings of variables that C code reads while it is loaded: they cannot differ between forked ranks."""


@dataclass(frozen=True)
class RankFork:
    """Arguments for one rank: its environment, and its log files for stdout and stderr."""

    env: dict[str, str]
    outputs: tuple[str, str]


def differences(ranks: list[RankFork], env: dict[str, str]) -> Iterator[str]:
    """Yield NUMBER=NAME=VALUE for each variable of a rank that is not in `env`, NUMBER=NAME for one only in `env`."""
    for number, rank in enumerate(ranks):
        for name, value in rank.env.items():
            if env.get(name) != value:
                yield f"{number}={name}={value}"
        for name in env.keys() - rank.env.keys():
            yield f"{number}={name}"


@dataclass(frozen=True)
class KeptTemplate:
    """Template that waits for a request, and what it started with."""

    pid: int
    channel: socket.socket
    argv: list[str]
    workdir: str
    modules: list[str]
    env: dict[str, str]
    """Variables of the template, without those of an attempt or a rank."""

    output: tuple[bytes, bytes]
    """Output of the imports to stdout and stderr."""

    def problem(self, task: wire.NodeTask, ranks: list[RankFork]) -> str:
        """Return the reason why the ranks of `task` cannot be forked from it; "" for none."""
        if self.argv != task.ranks[0].argv:
            return "the command line of the ranks has changed"
        if self.workdir != task.workdir:
            return "the working directory has changed"
        if self.modules != task.preload:
            return "other modules are requested"
        names = sorted(each.split("=", 2)[1] for each in differences(ranks, self.env))
        early = [name for name in names if name.startswith(AT_PROCESS_START)]
        return f"{early[0]} has changed and is read when a process starts" if early else ""

    def mark(self, run: str) -> bool:
        """Let it carry the mark of `run` from now on. Return False if it does not answer."""
        try:
            self.channel.settimeout(ANSWER_S)
            self.channel.send(MARK + b"\0" + run.encode("ascii"))
            is_marked = received(self.channel) == MARKED
            self.channel.setblocking(False)
        except OSError:
            return False
        return is_marked

    def end(self) -> None:
        """Kill it. The supervisor reaps it with all of its children."""
        self.channel.close()
        if is_child(str(self.pid)):
            os.kill(self.pid, signal.SIGKILL)

    def encoded(self) -> bytes:
        """Return this value for the program that replaces this one in the same process."""
        out, err = (base64.b64encode(each).decode("ascii") for each in self.output)
        words = [self.pid, self.channel.fileno(), self.argv, self.workdir, self.modules, self.env, out, err]
        return json.dumps(words).encode("ascii")

    @staticmethod
    def decoded(content: bytes) -> KeptTemplate:
        """Return the value that `encoded` returned in this process, before another program replaced it."""
        pid, channel, argv, workdir, modules, env, out, err = json.loads(content)
        output = (base64.b64decode(out), base64.b64decode(err))
        os.set_inheritable(channel, False)
        return KeptTemplate(pid, socket.socket(fileno=channel), argv, workdir, modules, env, output)


def received(channel: socket.socket) -> bytes:
    """Return the next packet; b"" at the end of the process on the other side."""
    try:
        return channel.recv(LARGEST_PACKET)
    except ConnectionResetError:  # It ended with a packet unread.
        return b""


def is_child(word: str) -> bool:
    """Return whether `word` is the id of a child of this process that runs."""
    if not word.isdigit():
        return False
    try:
        return os.waitid(os.P_PID, int(word), os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except OSError:
        return False
