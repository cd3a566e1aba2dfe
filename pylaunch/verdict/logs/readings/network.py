"""Readings of texts about connections: addresses, ports, rendezvous, and the peers of gloo, NCCL and JAX. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold_ranks
from pylaunch.verdict.logs.address import addresses, kind_of_address
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import ROUTE, Clue
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role

LOW, MEDIUM, HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH


def client_timeout(match: LogMatch, facts: LogFacts) -> Clue:
    host, port = match.groups.get("host", ""), match.groups.get("port", "")
    to = f"{host}:{port}" if host else "the coordinator"
    errors = {each.groups["errno"] for each in facts.of("c10d-connect-errno") if each.groups.get("port", port) == port}
    unresolved = [each for each in facts.of("c10d-gai") if each.groups["gai"] in ("-2", "-3", "-5")]
    if "112" in errors or "113" in errors or "101" in errors:
        why = "errno 113 or 101: rejected or not routed"
        return Clue("firewall-port", f"no route to {to}", MEDIUM, because=why, also=ROUTE)
    if unresolved and not errors & {"110", "111"}:
        return Clue("dns-hosts", f"the coordinator's name {unresolved[0].groups['host']} has no address", HIGH)
    if kind_of_address(host) == "loopback":
        also = ("coordinator-unreachable",) if host == "127.0.0.1" and len(facts.scans) == 1 else ()
        return Clue("hosts-loopback", f"the coordinator's address {to} is a loopback address", MEDIUM, also=also)
    if kind_of_address(host) == "bridge" or "container-context" in facts.ids:
        text, why = f"{to} did not answer, a container's network is involved", "an address of a bridge or container"
        return Clue("container-network", text, MEDIUM, because=why)
    if "110" in errors or ("firewall-context" in facts.ids and not errors):
        return Clue("firewall-port", f"connections to {to} time out: packets are dropped", MEDIUM,
                       because="errno 110: no answer at all", also=ROUTE)  # fmt: skip
    if "111" in errors:
        return Clue("coordinator-unreachable", f"nothing listens at {to}: rank 0 is not up, or listens elsewhere",
                       MEDIUM, because="errno 111: connection refused")  # fmt: skip
    return Clue("coordinator-unreachable", f"{to} did not answer before the time-out", MEDIUM, also=("firewall-port",))


_ADDRESS = re.compile(r"any network address of \(([^,\s)]{1,200}),")


def connect_errno(match: LogMatch, facts: LogFacts) -> Clue:
    host, errno = match.groups["host"], match.groups["errno"]
    if any(each.groups["gai"] in ("-2", "-3") for each in facts.of("c10d-gai")):
        return Clue("dns-hosts", f"{host} cannot be resolved", HIGH)
    if errno == "101":
        named = (_ADDRESS.search(each.text) for each in facts.of(match.signature.id))
        asked = next((found[1] for found in named if found), host)  # torch may print the bytes of another address.
        text = f"this node has no route to {asked}: the address is stale, or is of a network that the node is not in"
        return Clue("coordinator-unreachable", text, MEDIUM, because="errno 101: no connection was tried")
    if errno == "113":
        return Clue("firewall-port", f"no route to {host}: a filter, or a wrong address", MEDIUM, also=ROUTE)
    if kind_of_address(host) == "loopback" and len(facts.scans) > 1:
        return Clue("hosts-loopback", f"the coordinator's address {host} is a loopback address", MEDIUM)
    if errno == "110":
        return Clue("firewall-port", f"connections to {host} time out: packets are dropped", MEDIUM, also=ROUTE)
    return Clue("coordinator-unreachable", f"{host}:{match.groups['port']} refuses or cannot be reached", LOW)


def gai(match: LogMatch, facts: LogFacts) -> Clue:
    host, code = match.groups["host"], match.groups["gai"]
    if code not in ("-2", "-3"):
        return Clue("dns-hosts", f"{host} has no address of this family", LOW, role=Role.BENIGN)
    why = "the resolver does not answer" if code == "-3" else "the name is unknown"
    harmless = {each.signature.id for each in facts.matches if each.signature.role in (Role.CONTEXT, Role.BENIGN)}
    is_once = len(facts.of(match.signature.id)) < AGAIN
    is_alone = (
        is_once and facts.ids <= {match.signature.id, *harmless} and not any(scan.exceptions for scan in facts.scans)
    )
    return Clue("dns-hosts", f"{host} cannot be resolved: {why}", HIGH, role=Role.BENIGN if is_alone else None,
                because="one line of torch, which tries again: no failure" if is_alone else "")  # fmt: skip


AGAIN = 3
"""Lines about a name that is not found from which on it is no name that comes up while the ranks start."""

_PORT = re.compile(
    r"\bport:? ?`?(\d{2,5})\b|(?:\]|0\.0\.0\.0|to \S{1,80}):(\d{2,5}) \(errno|\('[^']{0,60}', (\d{2,5})\)"
)


def address_in_use(match: LogMatch, facts: LogFacts) -> Clue:
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
    if (launchers := _launchers_of_srun(facts)) > 1:
        text = f"srun starts a launcher for each task: {launchers} of them ended, because another one of the node has"
        return Clue("duplicate-launch", f"{text} {named}", MEDIUM, because="the tasks of one node that srun reports")
    also = () if port else ("duplicate-launch",)
    return Clue("port-in-use", f"{named} is already in use", HIGH if port else MEDIUM, also=also)


def _launchers_of_srun(facts: LogFacts) -> int:
    """Return the number of tasks on one node that ended because another task has their port; 0 where it is no such
    launch.

    Either srun is seen to start a launcher, or all tasks but one ended.
    """
    for match in facts.of("slurm-task-exit"):
        parts = re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", match.groups["tasks"])
        tasks = {task for low, high in parts for task in range(int(low), int(high or low) + 1)}
        all_but_one = len({*range(max(tasks, default=0) + 1)} - tasks) == 1
        if len(tasks) > 1 and ("srun-launcher" in facts.ids or all_but_one):
            return len(tasks)
    return 0


def bind_other(match: LogMatch, facts: LogFacts) -> Clue:
    if "ccess" in match.groups["why"] or "ermission" in match.groups["why"] or match.groups["why"] == "EACCES":
        return Clue("launcher-config", "the coordinator's port is a privileged one", HIGH)
    return Clue("launcher-config", "the coordinator's address is not an address of this node", HIGH)


def joined(match: LogMatch, facts: LogFacts) -> Clue:
    joined, world = int(match.groups["joined"]), int(match.groups["world"])
    if joined > world:
        text = f"{joined} processes joined a group of {world}: a second launch or a stale store"
        if facts.of("worker-restart") and joined % world == 0:
            return Clue("duplicate-launch", f"{text} of an earlier attempt", LOW, role=Role.SYMPTOM)
        return Clue("duplicate-launch", text, HIGH, because="more joined than the world size")
    text = f"{joined} of {world} processes joined: {world - joined} never arrived"
    return Clue("rank-missing", text, HIGH if joined < world else LOW)


def full_mesh(match: LogMatch, facts: LogFacts) -> Clue:
    return _gloo_address(f"{match.text} {match.groups.get('rest', '')}", "gloo could not connect all ranks", facts)


def gloo_refused(match: LogMatch, facts: LogFacts) -> Clue:
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
                       because="a routable address that does not answer", also=ROUTE)  # fmt: skip
    if "gloo-loopback-fallback" in facts.ids and not facts.is_of_one_machine:
        return Clue("hosts-loopback", f"{clause}: a rank announced its loopback address", MEDIUM,
                       because="gloo printed that it uses it as fallback")  # fmt: skip
    return Clue("network-interface", f"{clause}: the announced address is not reachable", MEDIUM,
                   also=("hosts-loopback", "firewall-port"))  # fmt: skip


def interface(match: LogMatch, facts: LogFacts) -> Clue:
    name = match.groups.get("interface", "").rstrip(".,")
    if name[:1] in ("^", "=") or "," in name:
        text = f"GLOO_SOCKET_IFNAME is {name}: gloo takes names of interfaces only"
        return Clue("env-syntax", text, HIGH, because="^, = and lists with prefixes are NCCL's syntax")
    return Clue("interface-missing", f"there is no interface {name} with an address on this node", HIGH)


def nccl_connect(match: LogMatch, facts: LogFacts) -> Clue:
    peer, why = match.groups.get("peer", ""), match.groups["why"]
    kind = kind_of_address(peer) if peer else ""
    if kind == "loopback":
        return Clue("hosts-loopback", f"NCCL's peer announced {peer}", HIGH)
    if kind in ("bridge", "link-local"):
        return Clue("network-interface", f"NCCL's peer announced {peer} ({kind})", HIGH,
                       because="this address belongs to an interface that other nodes do not share")  # fmt: skip
    if why == "Connection timed out":
        return Clue("firewall-port", f"{peer or 'the peer'} did not answer on NCCL's random port", MEDIUM,
                       because="a routable address that does not answer", also=ROUTE)  # fmt: skip
    if why in ("Connection refused", "Connection reset by peer"):
        return Clue("peer-lost", f"{peer or 'the peer'} refused the connection: its process may be gone", LOW,
                       role=Role.SYMPTOM)  # fmt: skip
    return Clue("network-interface", f"there is no route to {peer or 'the peer'}", MEDIUM, also=("firewall-port",))


def barrier_of_jax(match: LogMatch, facts: LogFacts) -> Clue:
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


def register(match: LogMatch, facts: LogFacts) -> Clue:
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
