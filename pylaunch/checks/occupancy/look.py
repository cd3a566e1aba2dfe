"""Ask all hosts at once who uses them: for verbs that only look, and for `clean`, which looks again after.

A process is judged by its family, never by its name. It is left over when it holds a device or the rendezvous port, or
carries the variables of a rank, and whoever started it is gone: the topmost of its ancestors that are ranks too has
been adopted by the init process. A launcher whose ranks live, a service that systemd keeps, a program in which
terminals are open, and all of a run whose supervisor lives are at work. So is an ancestor of another user's process
(root's runuser): what belongs to that user may end with it. So is what is in a container that no run of pylaunch made,
and the program that keeps such a container and its ports (conmon): only the engine knows whether somebody wants it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pylaunch.agent.piped import cleanup
from pylaunch.agent.probe.readers.devices import gpu
from pylaunch.agent.probe.readers.hosts import occupants
from pylaunch.agent.probe.registry import ReadingKey
from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.text import typed_json
from pylaunch.probe import answers
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import Answered, Unreachable, ask, understood_all
from pylaunch.probe.program import asking, probe
from pylaunch.protocol.readings.devices import Card, SmiReading
from pylaunch.protocol.readings.hosts import CleanupReading, LeaseHolder, OccupantsReading, ProcessReading


@dataclass(frozen=True)
class Occupant:
    """A process that uses a host for training."""

    pid: int
    started: int
    """In clock ticks since boot; with `pid`, names the process for ever."""

    began: float
    """Seconds since the epoch."""

    user: str
    command: str
    cwd: str
    devices: tuple[str, ...]
    ports: tuple[int, ...]
    is_rank: bool
    run: str | None
    """The run of pylaunch that it belongs to."""

    memory_mib: int | None = None
    """Device memory, where nvidia-smi reports it."""

    container: str = ""
    """Container that it is in, by its cgroups ("container 3f2a9b1c0d4e") or namespaces ("a container")."""

    @property
    def uses(self) -> str:
        """Devices, ports and marks that the process holds, as text for a person."""
        words = [f"holds {device}" for device in self.devices]
        words += [f"listens on port {port}" for port in self.ports]
        if self.memory_mib:
            words.append(f"has {self.memory_mib} MiB of device memory")
        if self.is_rank:
            words.append("has the variables of a rank")
        return ", ".join(words) or "was started by one of these"

    def __str__(self) -> str:
        inside = f" in {self.container[:200]}" if self.container else ""
        return f"pid {self.pid} ({self.command[:200]}) of {self.user}{inside}"


@dataclass(frozen=True)
class Occupancy:
    """All of one host."""

    stale: tuple[Occupant, ...] = ()
    """Ours, and whoever started them is gone."""

    at_work: tuple[Occupant, ...] = ()
    """Ours, and alive."""

    foreign: tuple[Occupant, ...] = ()
    """Other users'."""

    unseen: tuple[str, ...] = ()
    """Users whose processes may hold anything: it could not be seen."""

    hidden_listeners: tuple[tuple[int, str], ...] = ()
    """(port, user) of listeners whose process could not be seen."""


def occupancy(reading: OccupantsReading, memory: Mapping[int, int] | None = None) -> Occupancy:
    """Classify the processes of a reading. `memory` is device memory in MiB by process id."""
    rows = {row["pid"]: row for row in reading["processes"]}
    memory = memory or {}
    own = {pid for pid, row in rows.items() if row["uid"] == reading["uid"]}
    left = {pid for pid in own if _is_left_over(rows, pid)}
    left |= {pid for pid in own if any(each in left for each in _above(rows, pid)) and not rows[pid]["run_is_live"]}
    left -= {above for pid in rows if pid not in own for above in _above(rows, pid)}
    stale, at_work, foreign = [], [], []
    for pid, row in rows.items():
        occupant = _occupant(row, _run_of(rows, pid), memory.get(pid))
        if pid in left:
            stale.append(occupant)
        elif _is_of_interest(row) and pid in own:
            at_work.append(occupant)
        elif _is_of_interest(row):
            foreign.append(occupant)
    hidden = tuple((each["port"], each["user"]) for each in reading["listeners"])
    return Occupancy(tuple(stale), tuple(at_work), tuple(foreign), tuple(reading["unseen"]), hidden)


def _is_of_interest(row: ProcessReading) -> bool:
    return bool(row["devices"] or row["ports"] or row["rank"])


def _is_left_over(rows: Mapping[int, ProcessReading], pid: int) -> bool:
    row = rows[pid]
    if not (_is_of_interest(row) or row["run"]) or row["run_is_live"] or row["is_reaper"]:
        return False
    top = row
    for above in _above(rows, pid):
        if above not in rows or not rows[above]["rank"] or rows[above]["uid"] != row["uid"]:
            break
        top = rows[above]
    if top["service"] or not _is_orphan(rows, top):
        return False
    below = [each for each in rows.values() if top["pid"] in _above(rows, each["pid"])]
    launches = not top["rank"] and any(each["rank"] for each in below)
    # A program that overwrites its environment (setproctitle) is of the run of what started it.
    strange = (each for each in [top, *below] if each["container"] and not _run_of(rows, each["pid"]))
    return not launches and not any(strange) and not any(each["is_terminal"] for each in [top, *below])


def _run_of(rows: Mapping[int, ProcessReading], pid: int) -> str | None:
    """Return the run whose mark `pid` or its nearest ancestor with a mark carries."""
    return next((rows[each]["run"] for each in (pid, *_above(rows, pid)) if each in rows and rows[each]["run"]), None)


def _is_orphan(rows: Mapping[int, ProcessReading], row: ProcessReading) -> bool:
    parent = rows.get(row["parent"])
    return row["parent"] == 1 or (parent is not None and bool(parent["is_reaper"]))


def _above(rows: Mapping[int, ProcessReading], pid: int) -> Sequence[int]:
    """The ancestors of `pid`, nearest first."""
    found: list[int] = []
    while pid in rows and rows[pid]["parent"] not in found:
        pid = rows[pid]["parent"]
        found.append(pid)
    return found


def _occupant(row: ProcessReading, run: str | None, memory_mib: int | None) -> Occupant:
    return Occupant(
        row["pid"], row["started"], row["began"], row["user"], row["command"], row["cwd"], tuple(row["devices"]),
        tuple(row["ports"]), row["rank"], run, memory_mib, row["container"],
    )  # fmt: skip


V = TypeVar("V")

LATEST = 1e11
"""Seconds since the epoch; what comes after cannot be shown as a date."""

LARGEST_INDEX = 1 << 16
MOST_CARDS = 1 << 10


@dataclass(frozen=True)
class Unread:
    """Something that could not be looked at, and why."""

    subject: str
    reason: str


@dataclass(frozen=True)
class HostView:
    """One host's answer."""

    occupancy: Occupancy
    cards: tuple[Card, ...]
    """Devices in the output of nvidia-smi."""

    complaint: str | None
    """The error message of nvidia-smi."""

    leases: Mapping[int, LeaseHolder]
    """Holder of each device that is leased."""

    unread: tuple[Unread, ...]

    @property
    def processes_unread(self) -> str | None:
        """Why the processes of the host could not be read; None if they were."""
        return next((each.reason for each in self.unread if each.subject == occupants.occupants), None)


@dataclass(frozen=True)
class Swept:
    """Changes on a host, and its state afterwards."""

    cleanup: CleanupReading
    after: HostView


def look(cluster: Cluster, port: int) -> tuple[dict[str, HostView], dict[str, Unreachable]]:
    """Return the users of each host of `cluster`, and the hosts that could not be asked. Changes nothing."""
    programs = {host.name: probe(_questions(host, port)) for host in cluster.hosts}
    return understood_all(ask(cluster, programs), cluster, _view)


def sweep(
    cluster: Cluster, port: int, targets: Mapping[str, Sequence[Occupant]], *, dry_run: bool
) -> tuple[dict[str, Swept], dict[str, Unreachable]]:
    """Remove what runs that are over left, end exactly `targets` (by host), and look who uses each host then."""
    programs = {}
    for host in cluster.hosts:
        ends = [(each.pid, each.started) for each in targets.get(host.name, ())]
        questions = _questions(host, port)
        programs[host.name] = asking(
            questions, cleanup.of_dead_runs, host.node_root, ends, dry_run=dry_run, questions=questions
        )
    return understood_all(ask(cluster, programs), cluster, _swept)


def _swept(answer: Answered) -> Swept:
    return Swept(typed_json.converted(answer, CleanupReading), _view(answer))


def _questions(host: Host, port: int) -> dict[str, Any]:
    return {
        **occupants.occupants.ask({"ports": [port]}),
        **gpu.management.ask(None),
        **occupants.held.ask({"root": host.node_root, "devices": list(host.devices), "ports": [port]}),
    }


def _view(answered: Answered) -> HostView:
    """Raises one of MALFORMED for readings of another shape than their readers return."""
    found = answers.values(answered, (gpu.management, occupants.occupants, occupants.held))
    unread = tuple(Unread(name, each.reason) for name, each in found.items() if isinstance(each, Unmeasured))
    smi = _measured(found, gpu.management) or _NO_CARDS
    if len(smi["cards"]) > MOST_CARDS or not all(0 <= card["index"] <= LARGEST_INDEX for card in smi["cards"]):
        raise ValueError("more devices than a host can have")
    memory: dict[int, int] = {}
    for card in smi["cards"]:
        for process in card["processes"]:
            if process["pid"] is not None:
                memory[process["pid"]] = memory.get(process["pid"], 0) + (process["memory_mib"] or 0)
    seen = _measured(found, occupants.occupants)
    held = _measured(found, occupants.held)
    devices = held["devices"] if held is not None else {}
    using = occupancy(seen, memory) if seen is not None else Occupancy()
    began = [each.began for each in (*using.stale, *using.at_work, *using.foreign)]
    if not all(0 <= each < LATEST for each in (*began, *(holder["since"] for holder in devices.values()))):
        raise ValueError("a process began at no time that there is")
    leases = {int(index): holder for index, holder in devices.items()}
    return HostView(using, tuple(smi["cards"]), smi["complaint"], leases, unread)


_NO_CARDS: SmiReading = {"complaint": None, "driver": None, "cuda": None, "cards": []}


def _measured(found: Mapping[str, Any], reader: ReadingKey[V]) -> V | None:
    reading = answers.value(found, reader)
    return None if isinstance(reading, Unmeasured) else reading
