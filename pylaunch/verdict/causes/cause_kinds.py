"""Kinds of causes: the question whose answer confirms or refutes each, and the command to type next. Pure."""

from collections.abc import Iterable

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold


@dataclass(frozen=True)
class CauseKind:
    """Kind of a cause."""

    id: str
    meaning: str
    """One sentence, for the reference."""

    question: str
    hint: str = ""
    """Command with {host}, {rank} or {device}; "" where the last lines of the rank are the next thing to read."""


_TABLE = (
    CauseKind("rank-failed", "A rank raised an exception or exited with a code of its own",
              "does the rank fail in the same way when it runs alone?"),
    CauseKind("rank-killed", "A signal ended a rank", "who sent the signal: a person, a scheduler, the kernel?",
              "on {host}: journalctl --since -1h | tail -n 50"),
    CauseKind("limit", "A limit of its process, or a filter of system calls, ended a rank",
              "who set the limit: the shell or service that started pylaunch's agent, a container, or the program?",
              "on {host}: ulimit -a; systemctl show user@$(id -u) | grep -i limit"),
    CauseKind("out-of-memory", "The memory of a host, of a job or of a GPU was not enough",
              "does the memory of the rank grow with the steps, or is it high from the start?",
              "on {host}: journalctl -k -g 'Killed process'"),
    CauseKind("storage", "A disk or a file server failed, or is full",
              "can a new process on {host} read and write the same directory?",
              "pylaunch check --only storage,kernel --limit {host}"),
    CauseKind("gpu", "A GPU reported an error (Xid), or it or its driver does not work",
              "does the GPU pass a test while no run uses it?",
              "pylaunch check --only gpu --limit {host}"),
    CauseKind("link", "A network link went down or has errors", "does the link go down again without a run?",
              "on {host}: ethtool {device}; ip -s link show {device}"),
    CauseKind("path-blocked", "Packets between nodes are not answered",
              "can a new connection between the two hosts be opened on any port?",
              "pylaunch check --only network.ports --limit {host}"),
    CauseKind("node-lost", "A node no longer answers", "is {host} up (console, BMC), or is only its network down?",
              "pylaunch check --only reach --limit {host}"),
    CauseKind("node-restarted", "A node was restarted during the run",
              "what restarted {host}: its power, a watchdog, a panic of the kernel, a person?",
              "on {host}: last -x -n 5; journalctl -b -1 -n 50"),
    CauseKind("signalled", "The agent of a node received a signal to end, as its ranks did",
              "what ended all processes of this user on {host}: a shutdown, a logout, a scheduler, a person?",
              "on {host}: last -x -n 5; journalctl --since -1h | tail -n 50"),
    CauseKind("agent-lost", "The agent of the run on a host ended or does not answer, and the host answers",
              "did a rank on {host} fail before the agent was lost?",
              "on {host}: journalctl --since -1h -g 'oom|killed'"),
    CauseKind("job-ended", "Slurm ended the job that had the nodes",
              "what ended the job: scancel, its time limit, preemption?",
              "scontrol show job {job} shows the state and the reason of its end; squeue --states=all lists it"),
    CauseKind("rank-stopped", "The process of a rank is stopped",
              "who stopped it: a debugger, a terminal, a scheduler that suspends jobs?",
              "on {host}: ps -o pid,stat,lstart,args -e | grep ' T'"),
    CauseKind("exited-early", "A rank exited with code 0, or left the loop, while others still waited for it",
              "does rank {rank} get as many batches as the others?"),
    CauseKind("rank-silent", "A rank did not join the others in a collective, or alone had not ended",
              "what was rank {rank} doing: loading data, writing a checkpoint, computing?"),
    CauseKind("ranks-disagree", "Ranks were in different collectives, in one with other sizes, or one was not in it",
              "does the script call the same collectives on every rank?", "pylaunch stacks RUN --collectives"),
    CauseKind("launcher-failed", "A launcher failed, and none of its ranks", "does torchrun start there by hand?"),
    CauseKind("processor", "The kernel reports processors that hang, or broken memory",
              "does the host pass a memory test?", "on {host}: journalctl -k -b -p warning | tail -n 50"),
    CauseKind("clock-step", "The clock of a node was set during the run, or differs from the others",
              "does something on {host} set the clock besides NTP?", "pylaunch check --only time --limit {host}"),
    CauseKind("versions-differ", "Nodes or ranks have different versions or variables",
              "does the run work on the nodes that are alike?", "pylaunch check"),
    CauseKind("start-failed", "Ranks did not find each other at the start",
              "which ranks never reached the coordinator, and does its address answer from their nodes?",
              "pylaunch check --only reach,network"),
    CauseKind("address-wrong", "Ranks use an address, a name or an interface that other nodes cannot reach",
              "does the address belong to the network that all nodes share?", "pylaunch check --only reach,network"),
    CauseKind("fabric", "RDMA adapters, PCIe or the transports between GPUs are not set up to work together",
              "does a test between exactly these two adapters work?", "pylaunch check --only infiniband"),
    CauseKind("ssh-failed", "A host did not accept the SSH connection", "does ssh with the same options work by hand?",
              "pylaunch check --only reach --limit {host}"),
    CauseKind("unexplained", "A text shows a failure and not its cause",
              "which is the first failure over the logs of all ranks?"),
)  # fmt: skip

KINDS = {each.id: each for each in _TABLE}
"""By id."""


def advised(cause: FailureCause, hosts: Iterable[str] = (), device: str = "", job: str = "") -> FailureCause:
    """Return `cause` with the question and the hint of its kind; `hosts` are those that it is about, `job` its job."""
    known, at = KINDS[cause.kind], sorted(set(hosts) or ({cause.named.host} if cause.named is not None else ()))
    rank = None if cause.named is None else cause.named.rank
    words = {"host": fold(at) if at else "the host", "rank": rank, "device": device, "job": job}
    is_sure = cause.confidence is Confidence.HIGH
    has_all = ("{host}" not in known.hint or at) and ("{device}" not in known.hint or device)
    return replace(
        cause,
        question="" if is_sure else known.question.format(**words),
        hint=known.hint.format(**words) if has_all else "",
    )
