"""Readings of single signatures: the cause that a text and the facts around it support. Pure.

A reading may change the class of a signature, its confidence and its role, and it names ranks only where the text does.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold_ranks, named_ranks
from pylaunch.verdict.causes.xid import XIDS, XidKind
from pylaunch.verdict.logs.address import addresses, kind_of_address
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.subject import with_subject


@dataclass(frozen=True)
class Clue:
    """Cause that a match supports."""

    cause: str
    """Id of the class."""

    text: str
    """Clause for the verdict."""

    confidence: Confidence = Confidence.MEDIUM
    ranks: tuple[int, ...] = ()
    """Ranks that the text names as the cause."""

    role: Role | None = None
    """Role in these logs, where it is another one than the signature's."""

    because: str = ""
    """Fact that decided between the possible causes."""

    also: tuple[str, ...] = ()
    """Ids of the other classes that the text admits, where no fact decides between them."""


Reader = Callable[[LogMatch, LogFacts], Clue]
LOW, MEDIUM, HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH
_ROUTE = ("network-interface",)  # A packet filter and a wrong interface or address look alike.


def read(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the reading of a match: that of its reader, else the default of its signature."""
    if (reader := READERS.get(match.signature.id)) is not None:
        return reader(match, facts)
    return default(match)


def default(match: LogMatch, confidence: Confidence | None = None) -> Clue:
    """Return the class of the signature, with the module, file, variable, port or host that the text names.

    Its confidence is that of the signature without another one.
    """
    signature = match.signature
    cause = "unexplained" if signature.cause is None else signature.cause.id
    also = tuple(each.id for each in signature.also)
    return Clue(cause, with_subject(match), confidence or signature.confidence, also=also)


def _client_timeout(match: LogMatch, facts: LogFacts) -> Clue:
    host, port = match.groups.get("host", ""), match.groups.get("port", "")
    to = f"{host}:{port}" if host else "the coordinator"
    errors = {each.groups["errno"] for each in facts.of("c10d-connect-errno") if each.groups.get("port", port) == port}
    unresolved = [each for each in facts.of("c10d-gai") if each.groups["gai"] in ("-2", "-3", "-5")]
    if "112" in errors or "113" in errors or "101" in errors:
        why = "errno 113 or 101: rejected or not routed"
        return Clue("firewall-port", f"no route to {to}", MEDIUM, because=why, also=_ROUTE)
    if unresolved and not errors & {"110", "111"}:
        return Clue("dns-hosts", f"the coordinator's name {unresolved[0].groups['host']} has no address", HIGH)
    if kind_of_address(host) == "loopback":
        return Clue("hosts-loopback", f"the coordinator's address {to} is a loopback address", MEDIUM)
    if kind_of_address(host) == "bridge" or "container-context" in facts.ids:
        text, why = f"{to} did not answer, a container's network is involved", "an address of a bridge or container"
        return Clue("container-network", text, MEDIUM, because=why)
    if "110" in errors or ("firewall-context" in facts.ids and not errors):
        return Clue("firewall-port", f"connections to {to} time out: packets are dropped", MEDIUM,
                       because="errno 110: no answer at all", also=_ROUTE)  # fmt: skip
    if "111" in errors:
        return Clue("coordinator-unreachable", f"nothing listens at {to}: rank 0 is not up, or listens elsewhere",
                       MEDIUM, because="errno 111: connection refused")  # fmt: skip
    return Clue("coordinator-unreachable", f"{to} did not answer before the time-out", MEDIUM, also=("firewall-port",))


def _connect_errno(match: LogMatch, facts: LogFacts) -> Clue:
    host, errno = match.groups["host"], match.groups["errno"]
    if any(each.groups["gai"] in ("-2", "-3") for each in facts.of("c10d-gai")):
        return Clue("dns-hosts", f"{host} cannot be resolved", HIGH)
    if errno in ("113", "101"):
        return Clue("firewall-port", f"no route to {host}: a filter, or a wrong address", MEDIUM, also=_ROUTE)
    if kind_of_address(host) == "loopback" and len(facts.scans) > 1:
        return Clue("hosts-loopback", f"the coordinator's address {host} is a loopback address", MEDIUM)
    if errno == "110":
        return Clue("firewall-port", f"connections to {host} time out: packets are dropped", MEDIUM, also=_ROUTE)
    return Clue("coordinator-unreachable", f"{host}:{match.groups['port']} refuses or cannot be reached", LOW)


def _gai(match: LogMatch, facts: LogFacts) -> Clue:
    host, code = match.groups["host"], match.groups["gai"]
    if code not in ("-2", "-3"):
        return Clue("dns-hosts", f"{host} has no address of this family", LOW, role=Role.BENIGN)
    why = "the resolver does not answer" if code == "-3" else "the name is unknown"
    harmless = {each.signature.id for each in facts.matches if each.signature.role in (Role.CONTEXT, Role.BENIGN)}
    is_alone = facts.ids <= {match.signature.id, *harmless} and not any(scan.exceptions for scan in facts.scans)
    return Clue("dns-hosts", f"{host} cannot be resolved: {why}", HIGH, role=Role.BENIGN if is_alone else None,
                because="one line of torch, which tries again: no failure" if is_alone else "")  # fmt: skip


_PORT = re.compile(
    r"\bport:? ?`?(\d{2,5})\b|(?:\]|0\.0\.0\.0|to \S{1,80}):(\d{2,5}) \(errno|\('[^']{0,60}', (\d{2,5})\)"
)


def _address_in_use(match: LogMatch, facts: LogFacts) -> Clue:
    found = _PORT.search(match.text)
    port = match.groups.get("port") or match.groups.get("port2") or (found and next(filter(None, found.groups()))) or ""
    named = f"port {port}" if port else "a port"
    asked = {each.groups["port"] for each in facts.of("requested-port") if each.line != match.line}
    if port and asked and port not in asked:
        return Clue("app-hardcoded-port", f"{named} is in use, but port {', '.join(sorted(asked))} was requested",
                       HIGH, because="the printed port is not the requested one")  # fmt: skip
    origins = {str(each.origin) for each in facts.of(match.signature.id) if port in each.text and str(each.origin)}
    if len(origins) > 1:
        return Clue("duplicate-launch", f"{len(origins)} processes listen on {named}: the launcher runs more than "
                       "once on the node, or several nodes have node rank 0", MEDIUM,
                       because="several processes print the same port")  # fmt: skip
    also = () if port else ("duplicate-launch",)
    return Clue("port-in-use", f"{named} is already in use", HIGH if port else MEDIUM, also=also)


def _bind_other(match: LogMatch, facts: LogFacts) -> Clue:
    if "ccess" in match.groups["why"] or "ermission" in match.groups["why"] or match.groups["why"] == "EACCES":
        return Clue("launcher-config", "the coordinator's port is a privileged one", HIGH)
    return Clue("launcher-config", "the coordinator's address is not an address of this node", HIGH)


def _joined(match: LogMatch, facts: LogFacts) -> Clue:
    joined, world = int(match.groups["joined"]), int(match.groups["world"])
    if joined > world:
        text = f"{joined} processes joined a group of {world}: a second launch or a stale store"
        return Clue("duplicate-launch", text, HIGH, because="more joined than the world size")
    text = f"{joined} of {world} processes joined: {world - joined} never arrived"
    return Clue("rank-missing", text, HIGH if joined < world else LOW)


def _full_mesh(match: LogMatch, facts: LogFacts) -> Clue:
    return _gloo_address(f"{match.text} {match.groups.get('rest', '')}", "gloo could not connect all ranks", facts)


def _gloo_refused(match: LogMatch, facts: LogFacts) -> Clue:
    return _gloo_address(match.text, "gloo could not connect to a peer", facts, match.groups.get("addr", ""))


def _gloo_address(text: str, clause: str, facts: LogFacts, address: str = "") -> Clue:
    found = [address] if address else addresses(text)
    kinds = {kind_of_address(each): each for each in found}
    if "loopback" in kinds and not facts.is_of_one_machine:
        return Clue("hosts-loopback", f"{clause}: a peer announced {kinds['loopback']}", HIGH,
                       because="a loopback address reaches no other node")  # fmt: skip
    for kind in ("bridge", "link-local"):
        if kind in kinds:
            return Clue("network-interface", f"{clause}: a peer announced {kinds[kind]} ({kind})", HIGH)
    if "Connection refused" in text and found:
        return Clue("peer-lost", f"{clause}: {found[-1]} refused, its process may be gone", LOW, role=Role.SYMPTOM)
    if "imed out" in text and found:
        return Clue("firewall-port", f"{clause}: {found[-1]} did not answer on its random port", MEDIUM,
                       because="a routable address that does not answer", also=_ROUTE)  # fmt: skip
    return Clue("network-interface", f"{clause}: the announced address is not reachable", MEDIUM,
                   also=("hosts-loopback", "firewall-port"))  # fmt: skip


def _interface(match: LogMatch, facts: LogFacts) -> Clue:
    name = match.groups.get("interface", "").rstrip(".,")
    if name[:1] in ("^", "=") or "," in name:
        text = f"GLOO_SOCKET_IFNAME is {name}: gloo takes names of interfaces only"
        return Clue("env-syntax", text, HIGH, because="^, = and lists with prefixes are NCCL's syntax")
    return Clue("interface-missing", f"there is no interface {name} with an address on this node", HIGH)


def _nccl_connect(match: LogMatch, facts: LogFacts) -> Clue:
    peer, why = match.groups.get("peer", ""), match.groups["why"]
    kind = kind_of_address(peer) if peer else ""
    if kind == "loopback":
        return Clue("hosts-loopback", f"NCCL's peer announced {peer}", HIGH)
    if kind in ("bridge", "link-local"):
        return Clue("network-interface", f"NCCL's peer announced {peer} ({kind})", HIGH,
                       because="this address belongs to an interface that other nodes do not share")  # fmt: skip
    if why == "Connection timed out":
        return Clue("firewall-port", f"{peer or 'the peer'} did not answer on NCCL's random port", MEDIUM,
                       because="a routable address that does not answer", also=_ROUTE)  # fmt: skip
    if why in ("Connection refused", "Connection reset by peer"):
        return Clue("peer-lost", f"{peer or 'the peer'} refused the connection: its process may be gone", LOW,
                       role=Role.SYMPTOM)  # fmt: skip
    return Clue("network-interface", f"there is no route to {peer or 'the peer'}", MEDIUM, also=("firewall-port",))


def _bad_family(match: LogMatch, facts: LogFacts) -> Clue:
    if facts.has_two_nccl_versions:
        found = sorted(
            {version for versions in facts.nccl_versions.values() if len(versions) > 1 for version in versions}
        )
        return Clue("version-skew", f"NCCL's versions differ: {', '.join(found)}", HIGH,
                       because="the logs show more than one version")  # fmt: skip
    text = "NCCL read an address of another version of NCCL, or the peer has no interface"
    return Clue("version-skew", text, MEDIUM, also=("interface-missing",))


def _two_sizes(match: LogMatch, facts: LogFacts) -> Clue:
    text = match.signature.means
    if facts.has_two_nccl_versions:
        return Clue("version-skew", f"{text}; the logs show different versions of NCCL", HIGH)
    return Clue("env-nccl", text, MEDIUM, also=("version-skew", "collective-mismatch"))


def _shm_open(match: LogMatch, facts: LogFacts) -> Clue:
    why = match.groups.get("why", "") + match.groups.get("why2", "")
    return Clue("container-shm", f"/dev/shm cannot be used: {why.strip()}", HIGH)


def _no_answer(match: LogMatch, facts: LogFacts) -> Clue:
    gids = re.findall(r"(?:local|remote)Gid[s]? ?([0-9a-fA-F:.]{2,60})", match.text, re.IGNORECASE)
    if any(kind_of_address(gid) == "link-local" for gid in gids):
        return Clue("rdma-gid", "RDMA got no answer, and the GIDs are link-local", HIGH)
    if facts.made_progress:
        return Clue("ib-hardware", "RDMA got no answer after the run had made progress: a link, or a peer that died",
                       LOW, because="the run worked before")  # fmt: skip
    return Clue("rdma-gid", "RDMA got no answer before the first step: the adapters cannot talk", MEDIUM,
                   because="no step was printed before the error", also=("rail-topology", "acs-iommu"))  # fmt: skip


def _modify_qp(match: LogMatch, facts: LogFacts) -> Clue:
    why, errno = match.groups.get("why", ""), match.groups.get("errno", "")
    if why == "Connection timed out" or errno == "110":
        return Clue("rail-topology", "the remote GID does not answer: adapters of different rails or VLANs",
                       MEDIUM, because="errno 110: no neighbour at that address", also=("rdma-gid",))  # fmt: skip
    if why == "Network is unreachable" or errno == "101":
        return Clue("rdma-gid", "there is no route for the remote GID", MEDIUM)
    return Clue("rdma-gid", f"the GID index or the port does not fit: {why or errno or 'see the line'}", MEDIUM)


def _register_memory(match: LogMatch, facts: LogFacts) -> Clue:
    why = match.groups.get("why", "")
    if "Bad address" in why or "dmabuf" in match.groups["call"]:
        return Clue("rdma-devices", "GPU memory cannot be registered: the peer-memory module is missing", MEDIUM)
    if "denied" in why or "not permitted" in why:
        return Clue("rdma-devices", "the process may not use the RDMA device", MEDIUM)
    if "Cannot allocate memory" in why:
        return Clue("memlock", "RDMA could not lock memory", HIGH)
    return Clue("memlock", "RDMA could not lock memory", MEDIUM, also=("rdma-devices",))


def _adapter_event(match: LogMatch, facts: LogFacts) -> Clue:
    event = match.groups["event"].strip()
    if "GID" in event or "gid" in event:
        return Clue("rdma-gid", f"the adapter's GIDs changed: {event}", MEDIUM)
    if "access" in event or "QP" in event or "request" in event:
        return Clue("rdma-mtu", f"the adapter reports {event}", MEDIUM, also=("acs-iommu",))
    return Clue("ib-hardware", f"{match.groups['dev']} reports {event}", MEDIUM)


def _cuda_of_nccl(match: LogMatch, facts: LogFacts) -> Clue:
    why = match.groups["why"]
    if "nvls.cc" in match.text:
        return Clue("fabric-manager", f"NVSwitch multicast failed: {why}", MEDIUM)
    for part, cause in _CUDA:
        if part in why:
            also = ("gpu-memory",) if part == "out of memory" else ()
            return Clue(cause, f"CUDA failed in NCCL: {why}", MEDIUM, also=also)
    return Clue("nccl-unexplained", f"CUDA failed in NCCL: {why}", LOW)


_CUDA = (
    ("out of memory", "gpu-memory-foreign"),
    ("driver version is insufficient", "driver-old"),
    ("stub library", "library-mismatch"),
    ("not supported", "driver-old"),
    ("invalid device ordinal", "app-device-mapping"),
    ("illegal memory access", "gpu-unexplained"),
    ("unspecified launch failure", "gpu-unexplained"),
    ("not yet initialized", "fabric-manager"),
    ("ECC", "gpu-hardware"),
    ("busy or unavailable", "gpu-busy"),
    ("peer access", "acs-iommu"),
    ("peer mapping", "acs-iommu"),
)


def _segfault(match: LogMatch, facts: LogFacts) -> Clue:
    if "stack-unlimited" in facts.ids:
        return Clue("ulimit-stack", "a process crashed, and its stack limit is unlimited", MEDIUM,
                       because="ulimit -s unlimited gives NCCL's threads small stacks")  # fmt: skip
    library = match.groups.get("lib", "")
    return Clue("native-crash", f"a process crashed in {library}" if library else match.signature.means, MEDIUM)


def _bus_error(match: LogMatch, facts: LogFacts) -> Clue:
    text = "a process died by SIGBUS: /dev/shm, or the disk of a file that it mapped, is full"
    return Clue("container-shm", text, MEDIUM, also=("storage-full",))


def _data_loader(match: LogMatch, facts: LogFacts) -> Clue:
    signal = match.groups.get("signal", "")
    if signal.startswith("Killed"):
        return Clue("host-oom", "a data-loader worker was killed by SIGKILL: most often for lack of memory", MEDIUM)
    if signal.startswith("Bus error"):
        return Clue("container-shm", "a data-loader worker died by SIGBUS: /dev/shm is too small", HIGH)
    if signal.startswith("Segmentation"):
        return Clue("native-crash", "a data-loader worker crashed in native code", MEDIUM)
    return Clue("dataloader-worker", "a data-loader worker ended unexpectedly", HIGH)


def _barrier_of_jax(match: LogMatch, facts: LogFacts) -> Clue:
    text = " ".join((match.text, match.groups.get("rest", "")))
    listed = text.split("imed out task names", 1)
    tasks = tuple(sorted({int(each) for each in re.findall(r"/task:(\d{1,6})", listed[1])})) if len(listed) == 2 else ()
    counted = re.search(r"reached the barrier: ?(\d{1,7})/(\d{1,7})", text)
    reached = f"; {counted[1]} of {counted[2]} reached it" if counted else ""
    if "hutdown" in match.groups["id"]:
        return Clue("peer-lost", "the shutdown barrier of JAX timed out", LOW, role=Role.SYMPTOM)
    if tasks:
        return Clue("rank-missing", f"task{'s' * (len(tasks) > 1)} {fold_ranks(tasks)} did not reach the barrier "
                       f"{match.groups['id'].rstrip('.')}{reached}", HIGH, ranks=tasks)  # fmt: skip
    text = f"some tasks did not reach the barrier {match.groups['id'].rstrip('.')}{reached}"
    return Clue("rank-missing", text, MEDIUM)


def _register(match: LogMatch, facts: LogFacts) -> Clue:
    if "jax-proxy" in facts.ids:
        return Clue("proxy-variables", "a process could not register at JAX's coordinator, with a proxy set", MEDIUM)
    if "firewall-context" in facts.ids:
        return Clue("firewall-port", "JAX's coordinator was not reached: its port is not open", MEDIUM,
                       because="a packet filter is mentioned")  # fmt: skip
    if "late-start-context" in facts.ids:
        return Clue("launch-skew", "processes started further apart than JAX's initialization_timeout", MEDIUM,
                       because="processes that are still being prepared are mentioned")  # fmt: skip
    return Clue("coordinator-unreachable", "a process could not register at JAX's coordinator in time", MEDIUM,
                   also=("launch-skew", "firewall-port"))  # fmt: skip


def _xid(match: LogMatch, facts: LogFacts) -> Clue:
    code = int(match.groups["code"])
    known = XIDS.get(code)
    name = known.name if known else "an error that is not in pylaunch's table"
    text = f"the GPU {match.groups['bus']} reported Xid {code}: {name}"
    if code in (13, 31, 69):
        return Clue("gpu-program-fault", text, MEDIUM)
    if code in (109, 119, 120, 62):
        return Clue("gpu-driver-hang", text, HIGH)
    if known is not None and known.kind is XidKind.PROGRAM:
        return Clue("gpu-hardware", text, LOW, role=Role.BENIGN)
    if known is not None and known.kind is XidKind.SUSPECT:
        return Clue("gpu-hardware", text, LOW, role=Role.WARNING)
    return Clue("gpu-hardware", text, HIGH)


def _switch(match: LogMatch, facts: LogFacts) -> Clue:
    role = Role.BENIGN if match.groups.get("kind") == "Non-fatal" else None
    return Clue("gpu-hardware", f"an NVSwitch reported SXid {match.groups['code']}", MEDIUM, role=role)


def _slurm(match: LogMatch, facts: LogFacts) -> Clue:
    why = match.groups.get("why", "").upper()
    if "PREEMPT" in why:
        return Clue("preemption", "Slurm preempted the job", HIGH)
    if "NODE" in why:
        return Clue("session-lost", f"Slurm lost a node of the job ({why.lower()})", HIGH)
    if why:
        return Clue("scheduler-stop", f"Slurm ended the job: {why.lower()}", HIGH)
    return Clue("unexplained", "Slurm ended the job or step", LOW, role=Role.SYMPTOM)


def _desync(match: LogMatch, facts: LogFacts) -> Clue:
    named = re.findall(r"\d{1,7}", match.groups.get("ranks", ""))
    ranks = tuple(sorted({int(each) for each in named}))
    who = f"ranks {fold_ranks(ranks)}" if ranks else "the ranks that torch lists below"
    return Clue("rank-absent", f"{who} did not join the collective", HIGH, ranks=ranks)


def _barrier_of_gloo(match: LogMatch, facts: LogFacts) -> Clue:
    text = match.groups.get("absent") or match.groups.get("absent2", "")
    ranks = tuple(sorted({int(each) for each in re.findall(r"\d{1,7}", text)}))
    who = named_ranks(ranks) or "a rank"
    last = facts.ends.shown_last(ranks[0]) if len(ranks) == 1 else ""
    return Clue("rank-absent", f"{who} did not reach the barrier{last}", HIGH, ranks=ranks)


def _mismatch(match: LogMatch, facts: LogFacts) -> Clue:
    named = match.groups
    text = f"rank {named['rank1']} calls {named['op1']} and rank {named['rank2']} calls {named['op2']}"
    if named["op1"] == named["op2"]:
        text = f"ranks {named['rank1']} and {named['rank2']} call {named['op1']} with other shapes or numbers"
        if len({*re.findall(r"SequenceNumber=(\d+)", match.text)}) < 2:
            return Clue("collective-mismatch", text, MEDIUM, also=("uneven-data",))
    return Clue("collective-mismatch", text, HIGH)


def _model_differs(match: LogMatch, facts: LogFacts) -> Clue:
    if match.groups["params2"] == "0":
        text = f"rank {match.groups['other']} never got to build the model: its log holds the cause"
        return Clue("model-differs", text, LOW)
    return default(match)


READERS: dict[str, Reader] = {
    "c10d-client-timeout": _client_timeout,
    "c10d-connect-errno": _connect_errno,
    "c10d-gai": _gai,
    "c10d-eaddrinuse": _address_in_use,
    "acc-port-in-use": _address_in_use,
    "py-eaddrinuse": _address_in_use,
    "c10d-bind-other": _bind_other,
    "c10d-clients-missing": _joined,
    "store-barrier-timeout": _joined,
    "store-barrier-waiting": _joined,
    "gloo-fullmesh": _full_mesh,
    "gloo-connect-refused": _gloo_refused,
    "gloo-ifname-notfound": _interface,
    "nccl-connect-failed": _nccl_connect,
    "nccl-bad-family": _bad_family,
    "nccl-collmismatch-ib": _two_sizes,
    "nccl-truncated": _two_sizes,
    "nccl-shm-open": _shm_open,
    "nccl-ib-timeout": _no_answer,
    "nccl-ib-modifyqp": _modify_qp,
    "nccl-ib-regmr": _register_memory,
    "nccl-ib-async": _adapter_event,
    "nccl-cudafail": _cuda_of_nccl,
    "nccl-desync": _desync,
    "monitored-barrier": _barrier_of_gloo,
    "collective-mismatch": _mismatch,
    "ddp-model-differs": _model_differs,
    "elastic-sigsegv": _segfault,
    "kernel-segfault": _segfault,
    "elastic-sigbus": _bus_error,
    "dataloader-killed": _data_loader,
    "jax-barrier-timeout": _barrier_of_jax,
    "jax-register-deadline": _register,
    "gpu-xid": _xid,
    "gpu-xid-previous": _xid,
    "nvswitch-sxid": _switch,
    "slurm-limit": _slurm,
}
