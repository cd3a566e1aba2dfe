"""Template of the ranks of a node, seen from the supervisor: it imports modules before the release and forks the ranks.

    supervisor                          process with the command line of the interpreter
    verify             ──►              `python -u -c ""`: does the hook of in_rank/sitecustomize.py run first?
                       ◄── first        only then the command line of the ranks is started, in the same environment
    import …           ──►              with the gate and the files of the ranks as descriptors
                       ◄── forked pids  every rank is a child of the supervisor and waits at the gate
                       ◄── refused why  the ranks that wait at the ordinary gate are started instead

The interpreter runs the script as soon as the hook does not hold it. So the conditions below exclude what could skip
the hook, and the template starts only after the answer of the same interpreter in the same environment.
"""

from __future__ import annotations

import array
import os
import signal
import socket
from collections.abc import Iterator

from pylaunch import protocol
from pylaunch.agent.in_rank import sitecustomize
from pylaunch.agent.in_rank.template import FIRST, FORKED, IMPORT, LARGEST_PACKET, REFUSED, VERIFY
from pylaunch.agent.run.ranks import spawn
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.programs import path_of
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import RunDirectory

MOST_RANKS = 64
"""Ranks of one template: three descriptors each travel in one packet, which carries at most 253."""

LARGEST_REQUEST = 128 << 10
MOST_OUTPUT = 64 << 10
"""Bytes that imports may write to stdout or stderr; each rank gets them."""

MEASURED = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME")
"""Variables with which Python does more at its start or end than to run the script."""

AT_PROCESS_START = (
    "LD_", "PYTHON", "MALLOC_", "GLIBC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_"
)  # fmt: skip
"""Beginnings of variables that C code reads while it is loaded: they cannot differ between forked ranks."""

ELF = b"\x7fELF"


@dataclass(frozen=True)
class RankFork:
    """Arguments for one rank: its environment, and its log files for stdout and stderr."""

    env: dict[str, str]
    outputs: tuple[str, str]


@dataclass(frozen=True)
class ForkedRanks:
    """Ranks that the template has forked, at a gate of their own."""

    pids: list[int]
    """In the order of the task."""

    started: list[int]
    """Descriptor of each rank that is readable when it passes the gate, as `spawn.spawn` returns."""

    gate: tuple[int, int]


@dataclass(frozen=True)
class NotForked:
    """The ranks start in the ordinary way."""

    reason: str


def shared_environment(ranks: list[RankFork]) -> dict[str, str]:
    """Return the variables that all `ranks` have in common and that do not depend on the rendezvous port."""
    first, others = ranks[0].env, [rank.env for rank in ranks[1:]]
    return {
        name: value
        for name, value in first.items()
        if spawn.PORT_ENTRY not in value and all(env.get(name) == value for env in others)
    }


def differences(ranks: list[RankFork], env: dict[str, str]) -> Iterator[str]:
    """Yield NUMBER=NAME=VALUE for each variable of a rank that is not in `env`, NUMBER=NAME for one only in `env`."""
    for number, rank in enumerate(ranks):
        for name, value in rank.env.items():
            if env.get(name) != value:
                yield f"{number}={name}={value}"
        for name in env.keys() - rank.env.keys():
            yield f"{number}={name}"


def unmet_condition(task: protocol.NodeTask, ranks: list[RankFork]) -> str:
    """Return the reason why a template cannot start the ranks of `task`; "" for none."""
    if task.launcher or not ranks:
        return "a launcher starts the ranks"
    argv = task.ranks[0].argv
    if any(rank.argv != argv for rank in task.ranks):
        return "the command lines of the ranks differ"
    if len(argv) < 3 or argv[1] != "-u" or (argv[2].startswith("-") and argv[2] != "-m"):
        return f"{' '.join(argv[:3])}: options of the interpreter other than -u and -m"
    if any(spawn.PORT_ENTRY in word for word in argv):
        return "the command line contains the rendezvous port"
    if len(ranks) > MOST_RANKS:
        return f"{len(ranks)} ranks on one node, more than {MOST_RANKS}"
    shared = shared_environment(ranks)
    differing = sorted(name for rank in ranks for name in rank.env.keys() - shared.keys())
    early = [name for name in differing if name.startswith(AT_PROCESS_START)]
    if early:
        return f"{early[0]} differs between ranks and is read when a process starts"
    measured = [name for name in MEASURED if name in shared]
    if measured:
        return f"{measured[0]} is set"
    return _interpreter_problem(task, argv[0], shared) or _shadowed(task, argv)


def _interpreter_problem(task: protocol.NodeTask, program: str, env: dict[str, str]) -> str:
    path = os.path.join(task.workdir, program) if "/" in program else program
    found = path_of(path, env.get("PATH", os.defpath))
    try:
        is_binary = found is not None and rank_files.read(found, len(ELF), follow=True) == ELF
    except OSError:
        is_binary = False
    return "" if is_binary else f"{program} is no interpreter in machine code: a wrapper may start another one"


def _shadowed(task: protocol.NodeTask, argv: list[str]) -> str:
    """Refuse a module that the script would import from its own directory."""
    scripts = [os.path.realpath(os.path.join(task.workdir, word)) for word in argv[2:] if word.endswith(".py")]
    for directory in dict.fromkeys([*map(os.path.dirname, scripts), *([task.workdir] if argv[2] == "-m" else [])]):
        try:
            present = {name.partition(".")[0] for name in os.listdir(directory) if "." not in name or _is_module(name)}
        except OSError:
            continue  # The script itself reports a directory that is missing.
        for module in task.preload:
            package = module.partition(":")[0].partition(".")[0]
            if package in present:
                return f"{os.path.join(directory, package)} takes the place of the module {package}"
    return ""


def _is_module(name: str) -> bool:
    return name.endswith((".py", ".pyc", ".so"))


class Template:
    """Template of one run, from the test of its interpreter to its answer. `channel` is readable when it has news."""

    def __init__(self, task: protocol.NodeTask, ranks: list[RankFork], record: RunDirectory) -> None:
        """Start the test of the interpreter. Raises OSError."""
        self._task = task
        self._ranks = ranks
        self._outputs = (record.file("template.out"), record.file("template.err"))
        self._pid = 0
        self._is_verified = False
        self._gate: tuple[int, int] | None = None
        self._started: list[int] = []
        self._env = shared_environment(ranks)
        for path in self._outputs:
            rank_files.remove(path)
        python = task.ranks[0].argv[0]
        self.channel = self._spawn([python, "-u", "-c", ""])
        self.channel.send(VERIFY)

    def advance(self) -> ForkedRanks | NotForked | None:
        """Read the answer at `channel`. Returns None while there is more to wait for; `channel` is another one then."""
        try:
            answer = received(self.channel).split(b"\0")
            if answer == [FIRST] and not self._is_verified:
                self._is_verified = True
                self._end_process()
                self.channel = self._spawn(list(self._task.ranks[0].argv))
                self._request()
                return None
            if not self._is_verified:
                return NotForked("the interpreter does not run pylaunch's sitecustomize first")
            return self._answer(answer)
        except OSError as error:
            return NotForked(f"no template: {error.strerror or error}")

    def _answer(self, fields: list[bytes]) -> ForkedRanks | NotForked:
        if fields[0] == REFUSED:
            return NotForked(b" ".join(fields[1:]).decode("utf-8", "replace"))
        words = [field.decode("ascii", "replace") for field in fields[1:]]
        if fields[0] != FORKED or len(words) != len(self._ranks) or not all(map(is_child, words)):
            return NotForked("the template ended without an answer")
        if any(rank_files.size(path) > MOST_OUTPUT for path in self._outputs):
            return NotForked(f"imports wrote more than {MOST_OUTPUT >> 10} KiB of output")
        output = [rank_files.read(path, MOST_OUTPUT) for path in self._outputs]
        for rank in self._ranks:
            for content, sink in zip(output, rank.outputs):
                rank_files.append(sink, content)
        assert self._gate is not None
        forked = ForkedRanks([int(word) for word in words], self._started, self._gate)
        self._gate, self._started = None, []
        return forked

    def end(self) -> None:
        """Kill the template and what it has forked, unless `advance` has returned the ranks."""
        self._end_process()
        for descriptor in (*(self._gate or ()), *self._started):
            os.close(descriptor)
        self._gate, self._started = None, []
        for path in self._outputs:
            rank_files.remove(path)

    def _end_process(self) -> None:
        """Kill the process, unless it has ended. The supervisor reaps it with all of its children."""
        self.channel.close()
        if is_child(str(self._pid)):
            os.kill(self._pid, signal.SIGKILL)

    def _spawn(self, argv: list[str]) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            env = {sitecustomize.TEMPLATE: str(theirs.fileno()), **self._env}
            theirs.set_inheritable(True)  # Other threads close all descriptors in the processes that they start.
            self._pid, reading = spawn.spawn(spawn.Exec(argv, env, self._task.workdir), self._outputs)
        if spawn.reached_gate(reading):
            spawn.start_time(reading)
        else:
            os.close(reading)
        ours.setblocking(False)
        return ours

    def _request(self) -> None:
        """Send the template its modules, the variables of each rank, and the descriptors of gate and files."""
        own = differences(self._ranks, self._env)
        modules = self._task.preload
        words = [str(os.getpid()), str(len(self._ranks)), str(len(modules)), *modules, *own]
        packet = b"\0".join([IMPORT, *map(os.fsencode, words)])
        if len(packet) > LARGEST_REQUEST:
            raise OSError(f"the variables of the ranks take {len(packet)} bytes, more than {LARGEST_REQUEST}")
        self._gate = os.pipe()
        lent: list[int] = []
        try:
            for rank in self._ranks:
                reading, writing = os.pipe()
                self._started.append(reading)
                lent.append(writing)
                for path in rank.outputs:
                    lent.append(rank_files.open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            descriptors = array.array("i", [self._gate[0], *lent])
            self.channel.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        finally:
            for descriptor in lent:
                os.close(descriptor)


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
