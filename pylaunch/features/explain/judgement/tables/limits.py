"""Limits of a process: `ulimit -a` and /proc/PID/limits. Pure."""

import re
from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication

LOCKED = 1 << 30
"""Bytes of locked memory below which RDMA may fail: NCCL registers buffers of each channel."""

FILES = 4096
PROCESSES = 4096

ULIMIT = LogForm(
    "ulimit",
    ("max locked memory", "open files", "max user processes", "stack size"),
    re.compile(
        r"^\s{0,20}(?P<name>max locked memory|open files|max user processes|stack size) {1,40}"
        r"\((?:(?P<unit>kbytes|bytes), )?-[lnus]\) {1,40}(?P<soft>unlimited|\d{1,19})$"
    ),
)
OF_PROC = LogForm(
    "proc-limits",
    ("Max locked memory", "Max open files", "Max processes", "Max stack size"),
    re.compile(
        r"^\s{0,20}Max (?P<name>locked memory|open files|processes|stack size) {1,40}(?P<soft>unlimited|\d{1,19})"
        r" {1,40}(?:unlimited|\d{1,19}) {1,40}(?P<unit>bytes|files|processes)"
    ),
)
FORMS = (ULIMIT, OF_PROC)
_NAMES = {"max locked memory": "locked memory", "max user processes": "processes"}
_CAUSES = {"locked memory": "memlock", "open files": "nofile", "processes": "nproc", "stack size": "ulimit-stack"}
_LEAST = {"locked memory": LOCKED, "open files": FILES, "processes": PROCESSES}


@dataclass(frozen=True)
class Limit:
    """Soft limit of a process."""

    name: str
    value: int | None
    """Bytes or a count; None if it is unlimited."""

    excerpt: LogExcerpt

    @property
    def shown(self) -> str:
        """Limit in a verdict."""
        if self.value is None:
            return f"the limit of {self.name} is unlimited"
        unit = " KiB" if self.name in ("locked memory", "stack size") else ""
        return f"the limit of {self.name} is {self.value // 1024 if unit else self.value}{unit}"


def limits_of(excerpts: Iterable[LogExcerpt]) -> Iterator[Limit]:
    """Yield the limits that lines of `ulimit -a` and /proc/PID/limits show."""
    for each in excerpts:
        name, soft = each.groups["name"], each.groups["soft"]
        factor = 1024 if each.groups.get("unit") == "kbytes" else 1
        yield Limit(_NAMES.get(name, name), None if soft == "unlimited" else int(soft) * factor, each)


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield what limits support or contradict; none names a cause alone."""
    for limit in limits_of([*excerpts.get(ULIMIT.id, ()), *excerpts.get(OF_PROC.id, ())]):
        cause, least = _CAUSES[limit.name], _LEAST.get(limit.name)
        if least is None:
            yield Indication(cause, limit.shown, limit.excerpt, contradicts=limit.value is not None)
        else:
            is_enough = limit.value is None or limit.value >= least
            yield Indication(cause, limit.shown, limit.excerpt, contradicts=is_enough)
