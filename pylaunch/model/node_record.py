"""The part of a run's record that its nodes keep, so that a controller that has no record can follow and stop the run.

A rank can write whatever its user can write, so a record that is found on a node is data. It carries what a person is
shown and how ranks are placed: names, numbers, the command for display. It carries nothing about how to connect, where
to write or what to run. `unpack` takes every host from the inventory that this controller has read; a host that is not
in that inventory becomes `Connection.NONE`, and nobody connects to it.
"""

import base64
import re
import zlib
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec, RolePart
from pylaunch.model.plan import NodePlan, RankPlan, RunPlan, attempt_of
from pylaunch.model.run import RunRecord
from pylaunch.model.secret import masked
from pylaunch.model.text import typed_json

MAX_SIZE = 4 << 20
"""Bytes of a record once it is decompressed: argument lists are 2 MiB at most."""

MAX_SHARE = 16 << 20
"""Bytes of all records of one node together once they are decompressed, where each rank and host counts PER_RANK and
PER_HOST more: what is built of them."""

PER_RANK, PER_HOST = 1 << 8, 1 << 10
MAX_RANKS, MAX_HOSTS = MAX_SHARE // PER_RANK, MAX_SHARE // PER_HOST

MOST_NAME = 64
"""Characters of the name of a job."""

MOST_STOPS = 64
"""Roles of a job that stop one after the other; those after them stop together."""

_WEEK_S = 7 * 24 * 3600
_JOB = re.compile(r"[0-9a-f]{8}")
_ROLE = re.compile(r"(?a)[a-z][\w-]{0,30}")
_PART = re.compile(r"(?a)[a-z][\w-]{0,30}(?:\.\d{1,3})?")

RunId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}(\.[1-9][0-9]{0,4})?\Z")]
AgentVersion = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
HostName = Annotated[str, Meta(pattern=r"\A(?!\.\.?\Z)[^\x00-\x1f\x7f-\x9f/]{1,253}\Z")]
Small = Annotated[int, Meta(ge=0, le=1 << 16)]
Seconds = Annotated[float, Meta(ge=0, le=_WEEK_S)]


class _Node(msgspec.Struct):
    host: HostName
    ranks: Annotated[int, Meta(ge=1, le=4096)]
    devices: Annotated[list[Small], Meta(max_length=4096)]


class _NodeRecord(msgspec.Struct, tag="record-2", tag_field="kind"):
    run: RunId
    agent: AgentVersion
    created_at: Annotated[float, Meta(ge=0, le=1e11)]
    command: Annotated[list[str], Meta(min_length=1)]
    framework: Framework
    workdir: str
    nodes: Annotated[list[_Node], Meta(min_length=1, max_length=1 << 14)]
    spares: Annotated[list[HostName], Meta(max_length=1 << 14)]
    max_restarts: Small
    grace_s: Seconds | None
    node_timeout_s: Seconds
    part: RolePart | None = None


class NotARecordError(ValueError):
    """A text is no record that `pack` made."""


def pack(plan: RunPlan, agent: str, created_at: float) -> str:
    """Return the record of `plan` as one word, for its nodes to keep."""
    job = plan.job
    record = _NodeRecord(
        run=plan.run,
        agent=agent,
        created_at=created_at,
        command=[_encodable(word) for word in masked(job.command)],
        framework=job.framework,
        workdir=_encodable(job.workdir),
        nodes=[_Node(node.host.name, len(node.ranks), list(node.devices)) for node in plan.nodes],
        spares=[host.name for host in plan.spares],
        max_restarts=min(job.max_restarts, 1 << 16),
        grace_s=None if job.grace is None else min(job.grace.total_seconds(), _WEEK_S),
        node_timeout_s=min(job.node_timeout.total_seconds(), _WEEK_S),
        part=None if job.part is None else _bounded(job.part),
    )
    return base64.b64encode(zlib.compress(msgspec.json.encode(record), 9)).decode()


@dataclass
class NodeShare:
    """Rest of MAX_SHARE for the records of one node."""

    left: int = MAX_SHARE

    def take(self, size: int) -> None:
        """Take `size` of it. Raises NotARecordError."""
        if size > self.left:
            raise NotARecordError(f"the records of one node may name {MAX_RANKS} ranks and {MAX_HOSTS} hosts")
        self.left -= size


class RecordReader:
    """Reads the records that nodes keep, each text once.

    A rank can write any number of records with any content, so the share of a node is taken before a record is built.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[RunRecord, int]] = {}
        """Record and size by text."""

    def read(self, text: str, share: NodeShare) -> RunRecord:
        """Return the record in `text`, whose hosts are reached as the cluster says, and take it from `share`.

        Raises NotARecordError.
        """
        if text in self._known:
            share.take(self._known[text][1])
            return self._known[text][0]
        content = _inflated(text, min(MAX_SIZE, share.left))
        share.take(len(content))
        found = _decoded(content)
        built = sum(node.ranks for node in found.nodes) * PER_RANK
        built += (len(found.nodes) + len(found.spares)) * PER_HOST
        share.take(built)
        try:
            self._known[text] = _record(found, self._cluster), len(content) + built
        except UsageError as error:
            raise NotARecordError(f"no record of a run: {error.message}") from None
        return self._known[text][0]


def unpack(text: str, cluster: Cluster) -> RunRecord:
    """Return the record in `text`, its hosts reached as `cluster` says. Raises NotARecordError."""
    return RecordReader(cluster).read(text, NodeShare())


def _inflated(text: str, most: int) -> bytes:
    try:
        inflating = zlib.decompressobj()
        content = inflating.decompress(base64.b64decode(text, validate=True), max(1, most))
    except (ValueError, zlib.error) as error:
        raise NotARecordError(f"no record of a run: {error}") from None
    if not inflating.eof:
        raise NotARecordError(f"more than {most} bytes, or cut short")
    return content


def _decoded(content: bytes) -> _NodeRecord:
    try:
        found = typed_json.decoded(content, _NodeRecord)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise NotARecordError(f"no record of a run: {error}") from None
    names = [*(node.host for node in found.nodes), *found.spares]
    if len(set(names)) != len(names):
        raise NotARecordError("no record of a run: a host appears twice")
    if found.part is not None and not _is_bounded(found.part):
        raise NotARecordError("no record of a run: no part of a job")
    return found


def _bounded(part: RolePart) -> RolePart:
    name = _encodable(part.job_name)[:MOST_NAME]
    return replace(part, job_name=name, stop_order=min(part.stop_order, MOST_STOPS))


def _is_bounded(part: RolePart) -> bool:
    has_names = _JOB.fullmatch(part.job) and _ROLE.fullmatch(part.role) and _PART.fullmatch(part.name)
    return bool(has_names) and len(part.job_name) <= MOST_NAME and 0 <= part.stop_order <= MOST_STOPS


def _record(found: _NodeRecord, cluster: Cluster) -> RunRecord:
    job = JobSpec(
        command=tuple(found.command),
        framework=found.framework,
        workdir=found.workdir,
        spares=len(found.spares),
        max_restarts=found.max_restarts,
        grace=None if found.grace_s is None else timedelta(seconds=found.grace_s),
        node_timeout=timedelta(seconds=found.node_timeout_s),
        part=found.part,
    )
    plan = RunPlan(
        found.run,
        job,
        _placed(found.nodes),
        None,
        (),
        tuple(map(_unknown, found.spares)),
        restart=attempt_of(found.run),
    )
    return RunRecord(reached_by(plan, cluster), found.agent, found.created_at, (), None, is_foreign=True)


def reached_by(plan: RunPlan, cluster: Cluster) -> RunPlan:
    """Return `plan` with every host as `cluster` describes it. A host that `cluster` lacks is never connected to."""
    known = {host.name: host for host in cluster.hosts}
    return replace(
        plan,
        nodes=tuple(replace(node, host=known.get(node.host.name, _unknown(node.host.name))) for node in plan.nodes),
        spares=tuple(known.get(host.name, _unknown(host.name)) for host in plan.spares),
        known_hosts=cluster.known_hosts,
        sources=cluster.sources,
    )


def _unknown(name: str) -> Host:
    return Host(name, address=name, connection=Connection.NONE)


def _placed(nodes: list[_Node]) -> tuple[NodePlan, ...]:
    placed: list[NodePlan] = []
    first = 0
    for node_rank, node in enumerate(nodes):
        ranks = tuple(RankPlan(first + local_rank, local_rank) for local_rank in range(node.ranks))
        placed.append(NodePlan(_unknown(node.host), node_rank, ranks, tuple(node.devices)))
        first += node.ranks
    return tuple(placed)


def _encodable(text: str) -> str:
    """`text` for display: bytes that are not UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
