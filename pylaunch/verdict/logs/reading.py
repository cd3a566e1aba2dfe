"""Readings of single signatures: the cause that a text and the facts around it support. Pure."""

from __future__ import annotations

import re

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import fold_ranks, named_ranks
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue, Reader, default
from pylaunch.verdict.logs.readings.devices import (
    adapter_event,
    cuda_of_nccl,
    modify_qp,
    no_answer,
    register_memory,
    switch,
    xid,
)
from pylaunch.verdict.logs.readings.network import (
    address_in_use,
    barrier_of_jax,
    bind_other,
    client_timeout,
    connect_errno,
    full_mesh,
    gai,
    gloo_refused,
    interface,
    joined,
    nccl_connect,
    register,
)
from pylaunch.verdict.logs.readings.system import (
    crash_library,
    crash_place,
    file_not_found,
    module_not_found,
    name_unknown,
    native_abort,
    no_space,
    pickle_of,
    pickle_of_code,
    shell_end,
    text_encoding,
)
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role

LOW, MEDIUM, HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH


def read(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the reading of a match: that of its reader, else the default of its signature."""
    if (reader := READERS.get(match.signature.id)) is not None:
        return reader(match, facts)
    return default(match)


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


def _segfault(match: LogMatch, facts: LogFacts) -> Clue:
    if "stack-unlimited" in facts.ids:
        return Clue("ulimit-stack", "a process crashed, and its stack limit is unlimited", MEDIUM,
                       because="ulimit -s unlimited gives NCCL's threads small stacks")  # fmt: skip
    if library := crash_library(match, facts):
        return Clue("native-crash", f"a process crashed in {library}", MEDIUM, because="the first frame of its stack")
    library = match.groups.get("lib", "") or crash_place(match, facts)
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


def _out_of_memory(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the lack of memory, with the rank whose process a launcher reports as killed."""
    clue, first = default(match), facts.ends.first
    pid = match.groups.get("pid") or match.groups.get("pid2")
    ends = [each.text for each in facts.of("elastic-sigkill")]
    is_first = first is not None and first.code == -9 and any(f"(pid: {pid})" in each for each in ends)
    return replace(clue, ranks=(first.rank,)) if first is not None and is_first else clue


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


def _death_signal(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the signal; of low confidence a SIGTERM to a run without progress."""
    named = {name: value.removeprefix("SIG") for name, value in match.groups.items()}
    is_term = not {"15", "TERM"}.isdisjoint(named.values())
    return default(match, LOW if is_term and not facts.made_progress else None)


def _never_joined(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the ranks that a program lists as missing; one that printed an error of its own says more itself."""
    ranks = tuple(sorted({int(each) for each in re.findall(r"\d{1,6}", match.groups["ranks"])}))
    role = Role.SYMPTOM if facts.ends.errors.keys() & {*ranks} else None
    last = facts.ends.shown_last(ranks[0]) if len(ranks) == 1 else ""
    return Clue("rank-missing", f"{named_ranks(ranks)} did not join{last}", MEDIUM, ranks, role)


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
            return Clue("collective-mismatch", text, MEDIUM)
    return Clue("collective-mismatch", text, HIGH)


def _model_differs(match: LogMatch, facts: LogFacts) -> Clue:
    if match.groups["params2"] == "0":
        text = f"rank {match.groups['other']} never got to build the model: its log holds the cause"
        return Clue("model-differs", text, LOW)
    return default(match)


READERS: dict[str, Reader] = {
    "c10d-client-timeout": client_timeout,
    "c10d-connect-errno": connect_errno,
    "c10d-gai": gai,
    "c10d-eaddrinuse": address_in_use,
    "acc-port-in-use": address_in_use,
    "py-eaddrinuse": address_in_use,
    "c10d-bind-other": bind_other,
    "c10d-clients-missing": joined,
    "store-barrier-timeout": joined,
    "store-barrier-waiting": joined,
    "gloo-fullmesh": full_mesh,
    "gloo-connect-refused": gloo_refused,
    "gloo-ifname-notfound": interface,
    "nccl-connect-failed": nccl_connect,
    "nccl-bad-family": _bad_family,
    "nccl-collmismatch-ib": _two_sizes,
    "nccl-truncated": _two_sizes,
    "nccl-shm-open": _shm_open,
    "nccl-ib-timeout": no_answer,
    "nccl-ib-modifyqp": modify_qp,
    "nccl-ib-regmr": register_memory,
    "nccl-ib-async": adapter_event,
    "nccl-cudafail": cuda_of_nccl,
    "nccl-desync": _desync,
    "elastic-death-signal": _death_signal,
    "monitored-barrier": _barrier_of_gloo,
    "ranks-never-joined": _never_joined,
    "collective-mismatch": _mismatch,
    "ddp-model-differs": _model_differs,
    "elastic-sigsegv": _segfault,
    "kernel-segfault": _segfault,
    "elastic-sigbus": _bus_error,
    "dataloader-killed": _data_loader,
    "jax-barrier-timeout": barrier_of_jax,
    "jax-register-deadline": register,
    "gpu-xid": xid,
    "gpu-xid-previous": xid,
    "nvswitch-sxid": switch,
    "slurm-limit": _slurm,
    "kernel-oom": _out_of_memory,
    "shell-end": shell_end,
    "name-unknown": name_unknown,
    "errno-nospc-unnamed": no_space,
    "file-notfound": file_not_found,
    "py-modulenotfound": module_not_found,
    "native-abort": native_abort,
    "data-text-encoding": text_encoding,
    "checkpoint-pickle": pickle_of,
    "pickle-of-another-code": pickle_of_code,
}
