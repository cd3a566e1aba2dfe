"""Identities of ranks and nodes: the same one twice, ranks that never appear, and numbers that differ. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks

LIGHTNING = LogForm(
    "lightning-rank",
    ("MEMBER: ",),
    re.compile(r"GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<world>\d{1,6})\b"),
    most=1024,
)
NCCL_INIT = LogForm(
    "nccl-init",
    (" - Init ",),
    re.compile(
        r"(?:^|[\s\]>])(?P<host>[\w.-]{1,253}):(?P<pid>\d{1,9}):\d{1,9} \[\w{1,7}\] NCCL INFO "
        r"(?:ncclCommInit\w{0,20} )?comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,6}) n[rR]anks"
        r" (?P<world>\d{1,6}) cudaDev"
        r" \d{1,3}.{0,60}?busId (?P<bus>[0-9a-f]{1,16})"
        r"(?: commId (?P<id>0x[0-9a-f]{1,16}))? - Init (?P<state>START|COMPLETE)"
    ),
    most=256,
)
ELASTIC_NODE = LogForm(
    "elastic-node",
    ("Rendezvous complete for workers",),
    re.compile(r"Rendezvous complete for workers\. Result:"),
    follows=12,
)
DEEPSPEED_NODE = LogForm(
    "deepspeed-node",
    ("num_local_procs=",),
    re.compile(r"\bnnodes=(?P<nodes>\d{1,6}), num_local_procs=\d{1,6}, node_rank=(?P<rank>\d{1,6})\b"),
)
FORMS = (LIGHTNING, NCCL_INIT, ELASTIC_NODE, DEEPSPEED_NODE)

MOST_RANKS = 65_536
_FIELD = re.compile(
    r"^\s{1,10}(?P<name>group_rank|group_world_size|master_addr|master_port)=(?P<value>[\w.:-]{1,253})$"
)


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield identities that contradict each other."""
    yield from _of_members(excerpts.get(LIGHTNING.id, ()))
    yield from _of_communicators(excerpts.get(NCCL_INIT.id, ()))
    yield from _of_nodes(excerpts)


def _of_members(lines: Sequence[LogExcerpt]) -> Iterator[Indication]:
    """Yield what the announcements of the ranks of one start show. A restart announces every rank again."""
    worlds = Counter(int(line.groups["world"]) for line in lines)
    if len(worlds) > 1:
        text = f"processes disagree on the number of ranks: {' and '.join(str(each) for each in sorted(worlds))}"
        yield Indication("launcher-config", text, lines[0], 0, Confidence.MEDIUM, others=tuple(lines[1:3]))
    if len(worlds) != 1 or not 1 < (world := next(iter(worlds))) <= MOST_RANKS:
        return
    counts = Counter(int(line.groups["rank"]) for line in lines)
    missing = tuple(sorted(set(range(world)) - set(counts)))
    if not missing or len(counts) == 1 == sum(counts.values()):
        return
    times = set(counts.values())
    if times == {1}:
        sure = Confidence.MEDIUM if len(counts) > len(missing) else Confidence.LOW
        text = f"{len(counts)} of {world} ranks announced themselves: {named_ranks(missing)} did not"
        yield Indication("rank-missing", text, lines[-1], 0, sure, ranks=missing)
    elif len(times) == 1 and sum(counts.values()) <= world:
        present = f"{named_ranks(counts)} {'is' if len(counts) == 1 else 'are'} there {_times(max(times))}"
        text = f"{present}, and {named_ranks(missing)} not at all"
        because = "several nodes count their ranks from the same node rank"
        yield Indication(
            "duplicate-launch", text, lines[0], 0, Confidence.HIGH, others=tuple(lines[1:5]), because=because
        )


def _of_communicators(lines: Sequence[LogExcerpt]) -> Iterator[Indication]:
    groups: dict[str, list[LogExcerpt]] = {}
    for line in lines:
        if "id" in line.groups:
            groups.setdefault(line.groups["id"], []).append(line)
    for group in groups.values():
        processes: dict[int, dict[tuple[str, str], LogExcerpt]] = {}
        devices: dict[tuple[str, str], dict[int, LogExcerpt]] = {}
        for line in group:
            rank, host = int(line.groups["rank"]), line.groups["host"]
            processes.setdefault(rank, {}).setdefault((host, line.groups["pid"]), line)
            devices.setdefault((host, line.groups["bus"]), {}).setdefault(rank, line)
        for rank, found in processes.items():
            if len(found) > 1:
                text = f"rank {rank} of one communicator is there {_times(len(found))}: in {_processes(found)}"
                yield _twice("duplicate-launch", text, found.values())
        for (host, bus), ranks in devices.items():
            if len(ranks) > 1:
                text = f"{named_ranks(ranks)} of one communicator use the same GPU {bus} of {host}"
                yield _twice("app-device-mapping", text, ranks.values())
        world = int(group[0].groups["world"])
        has_begun = all(line.groups["state"] == "START" for line in group)
        if has_begun and len(processes) < world < min(2 * len(processes), MOST_RANKS):
            missing = tuple(sorted(set(range(world)) - set(processes)))
            began = f"{len(processes)} of {world} ranks began to set up NCCL's communicator"
            text = f"{began}: {named_ranks(missing)} did not"
            on_a_host = max(Counter(line.groups["host"] for line in group).values())
            # As many as a host has: its log may not have been passed.
            sure = Confidence.MEDIUM if len(missing) < on_a_host else Confidence.LOW
            yield Indication("rank-missing", text, group[-1], 0, sure, ranks=missing)


def _of_nodes(excerpts: Excerpts) -> Iterator[Indication]:
    nodes: dict[tuple[str, ...], list[LogExcerpt]] = {}
    for line in excerpts.get(DEEPSPEED_NODE.id, ()):
        if int(line.groups["nodes"]) > 1:
            nodes.setdefault(("deepspeed", line.groups["nodes"], line.groups["rank"]), []).append(line)
    for block in excerpts.get(ELASTIC_NODE.id, ()):
        named = {found["name"]: found["value"] for line in block.lines if (found := _FIELD.match(line))}
        if named.get("group_world_size", "1") != "1" and "group_rank" in named:
            run = (
                "torchrun",
                *(named.get(name, "") for name in ("master_addr", "master_port", "group_world_size", "group_rank")),
            )
            nodes.setdefault(run, []).append(block)
    for key, lines in nodes.items():
        hosts = {line.origin.host: line for line in lines if line.origin.host}
        if len(hosts) > 1:
            text = f"{' and '.join(sorted(hosts))} both have node rank {key[-1]}"
            yield _twice("duplicate-launch", text, hosts.values())


def _twice(cause: str, text: str, lines: Iterable[LogExcerpt]) -> Indication:
    first, *rest = lines
    return Indication(cause, text, first, 0, Confidence.HIGH, others=tuple(rest[:3]))


def _processes(found: Iterable[tuple[str, str]]) -> str:
    return " and ".join(f"process {pid} on {host}" for host, pid in list(found)[:3])


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"
