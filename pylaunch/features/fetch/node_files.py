"""List and read files on the nodes of a run, over the connections of all verbs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from pylaunch.agent.piped import run_files
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError
from pylaunch.features.fetch.choice import Fetched, NodeFile
from pylaunch.model.cluster import Connection, Host
from pylaunch.model.plan import RunPlan
from pylaunch.model.text import typed_json
from pylaunch.model.text.sanitise import visible_line
from pylaunch.probe.ask import Answered, Unreachable, ask, understood_all
from pylaunch.probe.program import FROM_STDIN, program
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import Together

MOST = 10_000
"""Files of one node."""

SILENCE_S = 60.0
LONGEST_LINE = 512
SHOWN = 300
"""Characters of a reason from a node."""


class FileList(msgspec.Struct):
    """Answer of a node."""

    files: list[NodeFile] = []
    is_cut: bool = False
    """There are more files than MOST, or the search took too long."""

    error: str = ""


class NodeStoppedError(PylaunchError):
    """A node sends no further file."""


class NotSentError(PylaunchError):
    """A node did not send a file, with its reason."""


@dataclass(frozen=True)
class NodeLists:
    """Files that nodes report, and the reasons of those that report none."""

    files: Mapping[str, Sequence[NodeFile]]
    failed: Mapping[str, str]
    cut: Sequence[str]
    """Hosts with more files than MOST."""


def list_on_nodes(plan: RunPlan, patterns: Sequence[str]) -> NodeLists:
    """Ask all nodes of the run for the files that match `patterns`."""
    known = [host for host in plan.cluster.hosts if host.connection is not Connection.NONE]
    cluster = plan.cluster.only(host.name for host in known)
    programs = {
        host.name: program(run_files.list_files, _place(plan, host), list(patterns), MOST) for host in cluster.hosts
    }
    lists, failed = understood_all(ask(cluster, programs), cluster, _read)
    reasons = dict.fromkeys(plan.cluster.names, "not in the inventory, so not connected to")
    reasons |= {name: _reason(why) for name, why in failed.items()}
    reasons |= {name: visible_line(each.error)[:SHOWN] for name, each in lists.items()}
    files = {name: each.files[:MOST] for name, each in lists.items() if not each.error}
    return NodeLists(
        files,
        {name: why for name, why in reasons.items() if name not in files},
        [name for name, each in lists.items() if each.is_cut],
    )


def _reason(why: Unreachable) -> str:
    return visible_line(why.reason)[:SHOWN]


def _read(answer: Answered) -> FileList:
    return typed_json.converted(answer, FileList)


def _place(plan: RunPlan, host: Host) -> tuple[str, str, str]:
    return (host.node_root, plan.run, plan.job.workdir)


class NodeStream:
    """Files that one node sends, one after the other."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._line = b""

    def contents(self, left: int) -> Iterator[bytes]:
        """Yield the next file of `left` bytes. Raises NotSentError for a file, NodeStoppedError for all that follow."""
        while (word := self._next_line()) != "end":
            if word.startswith("error "):
                raise NotSentError(visible_line(word[len("error ") :])[:SHOWN])
            if not word.isdecimal() or not 0 < int(word) <= min(left, run_files.CHUNK):
                raise NodeStoppedError("it sends something else than the file")
            rest = int(word)
            left -= rest
            while rest:
                data = self._some(rest)
                rest -= len(data)
                yield data
        if left:
            raise NodeStoppedError("it sends less than the file")

    def _next_line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            if len(line) >= LONGEST_LINE:
                raise NodeStoppedError("it sends something else than the file")
            line += self._some(1)
        return line[:-1].decode("utf-8", "replace")

    def _some(self, most: int) -> bytes:
        try:
            data = self._read(most)
        except PylaunchError as error:
            raise NodeStoppedError(error.message) from None
        if not data:
            raise NodeStoppedError("the connection ended")
        return data


@contextlib.contextmanager
def stream(plan: RunPlan, name: str, wanted: Sequence[Fetched], together: Together) -> Iterator[NodeStream]:
    """Have the host `name` send the files for a block, one after the other. Raises NodeStoppedError."""
    host = plan.cluster[name]
    words = [(each.file.path, each.file.size, each.file.mtime_ns) for each in wanted]
    script = program(run_files.send_files, _place(plan, host), words)
    argv = connector_of(host, plan.cluster.known_hosts).argv((host.agent_python, *FROM_STDIN))
    try:
        with together.reading(argv, stdin=script, silence_s=SILENCE_S) as read:
            yield NodeStream(read)
    except NodeStoppedError:
        raise
    except PylaunchError as error:
        raise NodeStoppedError(error.message) from None
