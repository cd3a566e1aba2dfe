"""Texts whose cause other facts decide: addresses, errno, ports, counts, Xids, a GPU's memory, removed files. Pure."""

from __future__ import annotations

import ipaddress
import re
from signal import SIGABRT, SIGTERM

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold_ranks
from pylaunch.verdict.causes.xid import XIDS, XidKind
from pylaunch.verdict.logs.clue import Clue, Reader, default
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.victims.launcher_exits import OF_A_SHELL, STOPS
from pylaunch.verdict.logs.victims.rank_ends import SIGNAL_NUMBERS, SIGNALS

LOW, MEDIUM, HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH

ROUTE = ("network-interface",)
"""Further cause of an address that does not answer: a packet filter and a wrong interface look alike."""

OTHERS_SHARE, LEAST_OF_OTHERS = 0.3, 2.0**31
"""Share of the GPU, and bytes at least, that others must hold to be the cause."""

AGAIN = 3
"""Lines about a name that is not found from which on it is no name that comes up while the ranks start."""

LAST = 10
"""Lines at the end of a log among which the end of its program is reported."""

_ADDRESS = re.compile(r"\[?((?:\d{1,3}\.){3}\d{1,3}|(?:::ffff:)?(?:\d{1,3}\.){3}\d{1,3}|fe80:[0-9a-fA-F:]{2,40}|::1)\b")
_BRIDGES = [ipaddress.ip_network(each) for each in ("172.17.0.0/16", "172.18.0.0/16", "192.168.122.0/24")]
_PORT = re.compile(
    r"\bport:? ?`?(\d{2,5})\b|(?:\]|0\.0\.0\.0|to \S{1,80}):(\d{2,5}) \(errno|\('[^']{0,60}', (\d{2,5})\)"
)
_STARTS = re.compile(r"\b(?:torchrun|mpirun|mpiexec|srun|accelerate|deepspeed|torch\.distributed)\b")
"""Programs that start ranks: what the ranks print after the end of these does not matter."""

_LAUNCHER = ("SignalException", "KeyboardInterrupt", "ChildFailedError", "SystemExit")
_TIME_LIMIT = 124
_ENDS = {**SIGNALS, 9: ("killed", "SIGKILL: most often for lack of memory")}

_REMOVES = re.compile(r"(?i)\b(?:remov(?:e|ing)|deletes?|deleted|deleting|prun(?:e|ing)|unlink|purge|rotate)\w{0,4}\b")
_SIZE = r"(\d{1,7}(?:\.\d{1,4})?) ?([KMGT]i?B|bytes)"
_UNITS = {"bytes": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_CAPACITY = rf"total capaci?ty of {_SIZE}|{_SIZE} total capacity"
_FREE = rf"of which {_SIZE} is free|{_SIZE} free"
_OWN = rf"this process has {_SIZE} memory in use"
_ALLOCATED = rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated"
_LOOSE = rf"{_SIZE} is reserved by PyTorch but unallocated|{_SIZE} cached"
_RESERVED = rf"{_SIZE} reserved in total by PyTorch"
_HOLDER = re.compile(r"Process (\d{1,9}) has ")


def read(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the reading of a match: that of its reader, else the default of its signature."""
    reader = READERS.get(match.signature.id)
    return default(match) if reader is None else reader(match, facts)


def kind_of_address(text: str) -> str:
    """Return "loopback", "bridge" (docker0, virbr0), "link-local", "" for any other, or "name" for a host name."""
    plain = text.strip("[]").removeprefix("::ffff:").split("%")[0]
    if plain in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return "loopback"
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return "name"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "bridge" if any(address in network for network in _BRIDGES if address.version == network.version) else ""


def _client_timeout(match: LogMatch, facts: LogFacts) -> Clue:
    """Return why the coordinator did not answer, by its address and the errno of the attempts before."""
    host, port = match.groups.get("host", ""), match.groups.get("port", "")
    to = f"{host}:{port}" if host else "the coordinator"
    errors = {each.groups["errno"] for each in facts.of("c10d-connect-errno") if each.groups.get("port", port) == port}
    unresolved = [each for each in facts.of("c10d-gai") if each.groups["gai"] in ("-2", "-3", "-5")]
    if errors & {"101", "112", "113"}:
        return Clue(
            "firewall-port", f"no route to {to}", because="errno 113 or 101: rejected or not routed", also=ROUTE
        )
    if unresolved and not errors & {"110", "111"}:
        return Clue("dns-hosts", f"the coordinator's name {unresolved[0].groups['host']} has no address", HIGH)
    kind = kind_of_address(host)
    if kind == "loopback":
        also = ("coordinator-unreachable",) if host == "127.0.0.1" and len(facts.scans) == 1 else ()
        return Clue("hosts-loopback", f"the coordinator's address {to} is a loopback address", also=also)
    if kind == "bridge":
        return Clue("container-network", f"{to} did not answer: an address of a bridge or container")
    if "110" in errors:
        text = f"connections to {to} time out: packets are dropped"
        return Clue("firewall-port", text, because="errno 110: no answer at all", also=ROUTE)
    if "111" in errors:
        text = f"nothing listens at {to}: rank 0 is not up, or listens elsewhere"
        return Clue("coordinator-unreachable", text, because="errno 111: connection refused")
    return Clue("coordinator-unreachable", f"{to} did not answer before the time-out", also=("firewall-port",))


def _gai(match: LogMatch, facts: LogFacts) -> Clue:
    """Return a name without an address; a single line of torch, which asks again, is no failure."""
    host, code = match.groups["host"], match.groups["gai"]
    if code not in ("-2", "-3"):
        return Clue("dns-hosts", f"{host} has no address of this family", LOW, role=Role.BENIGN)
    why = "the resolver does not answer" if code == "-3" else "the name is unknown"
    harmless = {each.signature.id for each in facts.matches if each.signature.role in (Role.CONTEXT, Role.BENIGN)}
    is_once = len(facts.of(match.signature.id)) < AGAIN and facts.ids <= {match.signature.id, *harmless}
    is_alone = is_once and not any(scan.exceptions for scan in facts.scans)
    return Clue("dns-hosts", f"{host} cannot be resolved: {why}", HIGH, role=Role.BENIGN if is_alone else None)


def _address_in_use(match: LogMatch, facts: LogFacts) -> Clue:
    """Return who else may have the port: a program that asks for another one, or a second launch."""
    found = _PORT.search(match.text)
    port = match.groups.get("port") or match.groups.get("port2") or (found and next(filter(None, found.groups()))) or ""
    named = f"port {port}" if port else "a port"
    asked = {each.groups["port"] for each in facts.of("requested-port") if each.line != match.line}
    if port and asked and port not in asked:
        text = f"{named} is in use, but port {', '.join(sorted(asked))} was requested"
        return Clue("app-hardcoded-port", text, HIGH, because="the printed port is not the requested one")
    origins = {str(each.origin) for each in facts.of(match.signature.id) if port in each.text and str(each.origin)}
    if len(origins) > 1:
        text = f"{len(origins)} processes listen on {named}: the launcher runs more than once on the node, or several"
        return Clue("duplicate-launch", f"{text} nodes have node rank 0", because="several processes print the port")
    if (launchers := _launchers_of_srun(facts)) > 1:
        text = f"srun starts a launcher for each task: {launchers} of them ended, because another one of the node has"
        return Clue("duplicate-launch", f"{text} {named}", because="the tasks of one node that srun reports")
    return Clue("port-in-use", f"{named} is already in use", HIGH)


def _launchers_of_srun(facts: LogFacts) -> int:
    """Return the number of tasks on one node that ended because another task has their port; 0 for no such launch.

    Either srun is seen to start a launcher, or all tasks but one ended.
    """
    for match in facts.of("slurm-task-exit"):
        parts = re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", match.groups["tasks"])
        tasks = {task for low, high in parts for task in range(int(low), int(high or low) + 1)}
        all_but_one = len({*range(max(tasks, default=0) + 1)} - tasks) == 1
        if len(tasks) > 1 and ("srun-launcher" in facts.ids or all_but_one):
            return len(tasks)
    return 0


def _joined(match: LogMatch, facts: LogFacts) -> Clue:
    """Return who is missing, or there twice, by the number of processes that joined."""
    joined, world = int(match.groups["joined"]), int(match.groups["world"])
    if joined > world:
        text = f"{joined} processes joined a group of {world}: a second launch or a stale store"
        if facts.of("worker-restart") and joined % world == 0:
            return Clue("duplicate-launch", f"{text} of an earlier attempt", LOW, role=Role.SYMPTOM)
        return Clue("duplicate-launch", text, HIGH, because="more joined than the world size")
    text = f"{joined} of {world} processes joined: {world - joined} never arrived"
    return Clue("rank-missing", text, HIGH if joined < world else LOW)


def _announced(match: LogMatch, facts: LogFacts) -> Clue:
    """Return why a peer of gloo or NCCL does not answer, by the address that it announced."""
    text = f"{match.text} {match.groups.get('rest', '')}"
    address = match.groups.get("addr") or match.groups.get("peer", "")
    found = [address] if address else _ADDRESS.findall(text)
    kinds = {kind_of_address(each): each for each in found}
    clause = match.signature.means
    is_alone = match.signature.page == "network" and facts.is_of_one_machine
    if "loopback" in kinds and not is_alone:
        why = "a loopback address reaches no other node"
        return Clue("hosts-loopback", f"{clause}: {kinds['loopback']}", HIGH, because=why)
    for kind in ("bridge", "link-local"):
        if kind in kinds:
            return Clue("network-interface", f"{clause}: {kinds[kind]} ({kind})", HIGH)
    if re.search("Connection re(?:fused|set)", text) and found:
        text = f"{clause}: {found[-1]} refused, its process may be gone"
        return Clue("peer-lost", text, LOW, role=Role.SYMPTOM)
    if "imed out" in text and found:
        why = "a routable address that does not answer"
        return Clue("firewall-port", f"{clause}: {found[-1]} did not answer", because=why, also=ROUTE)
    if "gloo-loopback-fallback" in facts.ids and not is_alone:
        why = "gloo printed that it uses it as fallback"
        return Clue("hosts-loopback", f"{clause}: a rank announced its loopback address", because=why)
    return Clue("network-interface", clause, also=("hosts-loopback", "firewall-port"))


def _barrier_of_jax(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the tasks that JAX lists as missing at a barrier."""
    text, name = f"{match.text} {match.groups.get('rest', '')}", match.groups["id"].rstrip(".")
    listed = text.partition("imed out task names")[2]
    tasks = tuple(sorted({int(each) for each in re.findall(r"/task:(\d{1,6})", listed)}))
    if "hutdown" in name:
        return Clue("peer-lost", "the shutdown barrier of JAX timed out", LOW, role=Role.SYMPTOM)
    if not tasks:
        return Clue("rank-missing", f"some tasks did not reach the barrier {name}")
    return Clue("rank-missing", f"tasks {fold_ranks(tasks)} did not reach the barrier {name}", HIGH, tasks)


def _missing_file(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the process that removed a file before another one used it, if a line says so; else a missing file."""
    path = match.groups["path"]
    whole, folder = (rf"(?<![\w./-]){re.escape(each)}" for each in (path, path.rpartition("/")[0] or path))
    is_named = re.compile(rf"{whole}(?!\.?[\w-]|/\w)|{folder}/?$")
    before = (each for each in facts.by_file[match.file].tail if each.line < match.line and each.origin != match.origin)
    by = next((each for each in before if is_named.search(each.text) and _REMOVES.search(each.text)), None)
    if by is None:
        return default(match)
    text = f"{str(by.origin) or 'another process'} removed {path} before another one used it"
    ranks = () if by.origin.rank is None else (by.origin.rank,)
    return Clue("checkpoint-race", text, ranks=ranks, because=f"its line {by.text[:80]!r}")


def _xid(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the part that an Xid has, by NVIDIA's table."""
    code = int(match.groups["code"])
    known = XIDS.get(code)
    name = known.name if known else "an error that is not in pylaunch's table"
    text = f"the GPU {match.groups['bus']} reported Xid {code}: {name}"
    if code in (13, 31, 69):
        return Clue("gpu-program-fault", text)
    if code in (109, 119, 120, 62):
        return Clue("gpu-driver-hang", text, HIGH)
    if known is not None and known.kind is not XidKind.DAMAGED:
        role = Role.BENIGN if known.kind is XidKind.PROGRAM else Role.WARNING
        return Clue("gpu-hardware", text, LOW, role=role)
    return Clue("gpu-hardware", text, HIGH)


def _aborted(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the abort of native code, with the rank that a launcher reports for a SIGABRT."""
    clue, first = default(match), facts.ends.first
    is_named = first is not None and first.code == -SIGABRT
    return replace(clue, ranks=(first.rank,)) if first is not None and is_named else clue


def _shell_end(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal, or the time limit, that ended a program whose log shows no other failure."""
    named, report = match.groups, replace(default(match), role=Role.CONTEXT)
    word = (named.get("word") or named.get("alone", "")).capitalize()
    code = int(named["code"]) if "code" in named else -SIGNAL_NUMBERS[word]
    signal = -code if code < 0 else code - OF_A_SHELL
    is_launcher = _STARTS.search(named.get("name", "")) is not None
    if match.origin.rank is not None or not (is_launcher or facts.by_file[match.file].lines - match.line < LAST):
        return report
    others = {each.line for each in facts.matches if each.signature.role in (Role.ROOT, Role.SYMPTOM)} - {match.line}
    raised = {unit.chain[-1].type.rpartition(".")[2] for scan in facts.scans for unit in scan.exceptions}
    is_stopped = signal == SIGTERM and any(each.line < match.line for each in facts.of(STOPS))
    if others or not raised <= {*_LAUNCHER} or is_stopped or match.signature.pattern.search(match.text) is None:
        return report
    has_hung = any(" (most recent call first)" in line.text for scan in facts.scans for line in scan.tail)
    if code == _TIME_LIMIT and facts.made_progress and not has_hung:
        text = "`timeout` ended the program at its time limit (exit status 124), while it made progress"
        return Clue("scheduler-stop", text, role=Role.ROOT)
    if signal not in _ENDS:
        return report
    cause, how = _ENDS[signal]
    name = " ".join(named.get("name", "the program").split())
    return Clue(cause, f"{name} was ended by {how}", role=Role.ROOT)


def _gpu_memory(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the holder of a GPU's memory, from the message of PyTorch: this process, another one, or fragments."""
    text = " ".join((match.text, match.groups.get("rest", "")))
    need, capacity = _bytes(_SIZE, match.groups["need"]) or 0.0, _bytes(_CAPACITY, text)
    if not capacity:
        return Clue("gpu-memory", f"{match.groups['need']} of GPU memory could not be allocated")
    allocated, loose = _bytes(_ALLOCATED, text) or 0.0, _bytes(_LOOSE, text) or 0.0
    own = _bytes(_OWN, text) or _bytes(_RESERVED, text) or allocated + loose
    free = _bytes(_FREE, text)
    others = 0.0 if free is None else capacity - free - own
    if own and others > max(OTHERS_SHARE * capacity, LEAST_OF_OTHERS):
        holders = [int(pid) for pid in _HOLDER.findall(text)]
        who = f"process {holders[0]}" if len(holders) == 1 else "other processes"
        held = f"{who} and the driver hold {_shown(others)} of {_shown(capacity)}"
        return Clue("gpu-memory-foreign", f"another process holds the GPU's memory: {held}", because=held)
    loose = loose or max(0.0, (_bytes(_RESERVED, text) or 0.0) - allocated)
    if loose > max(need, 0.1 * capacity):
        share = f"{_shown(loose)} are reserved but not allocated"
        return Clue("gpu-memory-fragmented", f"GPU memory is fragmented: {share}", because=share)
    return Clue("gpu-memory", f"the process needs more than the {_shown(capacity)} of its GPU", HIGH)


def _bytes(form: str, text: str) -> float | None:
    found = re.search(form, text)
    if found is None:
        return None
    number, unit = [each for each in found.groups() if each][:2]
    return float(number) * _UNITS["bytes" if unit == "bytes" else unit[0]]


def _shown(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


READERS: dict[str, Reader] = {
    "acc-port-in-use": _address_in_use,
    "c10d-client-timeout": _client_timeout,
    "c10d-clients-missing": _joined,
    "c10d-eaddrinuse": _address_in_use,
    "c10d-gai": _gai,
    "cuda-oom": _gpu_memory,
    "file-notfound": _missing_file,
    "gloo-connect-refused": _announced,
    "gloo-fullmesh": _announced,
    "gpu-xid": _xid,
    "jax-barrier-timeout": _barrier_of_jax,
    "native-abort": _aborted,
    "nccl-connect-failed": _announced,
    "py-eaddrinuse": _address_in_use,
    "shell-end": _shell_end,
    "store-barrier-timeout": _joined,
    "store-barrier-waiting": _joined,
}
