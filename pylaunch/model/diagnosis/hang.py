"""Findings about ranks that do not advance."""

from enum import Enum

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence


class HangKind(Enum):
    """Kind of a finding about ranks that do not advance."""

    ENDED = "rank-ended"
    """A rank has ended while others wait for it."""

    STOPPED = "rank-stopped"
    """SIGSTOP or a debugger stopped a rank's process."""

    DISK_WAIT = "disk-wait"
    """A rank waits in the kernel for a disk, a network file system or a driver."""

    NODE_SILENT = "node-silent"
    """A node does not answer."""

    GPU = "gpu"
    """A GPU reported an error (Xid) since the last sign of progress."""

    LINK = "link"
    """A network link went down and is not up again."""

    PATH_BLOCKED = "path-blocked"
    """Packets between hosts are not acknowledged."""

    INTERPRETER_HELD = "interpreter-held"
    """C code of a rank keeps the interpreter lock."""

    OTHER_CALL = "other-call"
    """Ranks call different operations, shapes or types as the same collective."""

    OTHER_PLACE = "other-place"
    """Ranks call the same collective at different places of the script."""

    EXTRA_CALL = "extra-call"
    """Few ranks wait in a collective that the others do not call."""

    GROUP_ORDER = "group-order"
    """Ranks call the collectives of two groups in different order."""

    SILENT = "rank-silent"
    """A rank without an answer is in a group whose other ranks wait."""

    LATE = "late"
    """A rank has not called a collective in which others wait."""

    BUSY = "busy"
    """A rank that others wait for works, or the last ranks run on."""

    TRANSPORT = "transport"
    """All ranks called the same collective and none finished it."""

    STUCK = "stuck"
    """A rank neither computes nor moves data, and no collective shows who waits for it."""

    UNDECIDED = "undecided"
    """Ranks are quiet, and nothing shows that one waits for another."""


@dataclass(frozen=True)
class HangFinding:
    """Explanation of ranks that do not advance."""

    kind: HangKind
    text: str
    """One line: who waits in which call, and who is absent from it."""

    confidence: Confidence
    ranks: tuple[int, ...] = ()
    """Ranks named as the cause; () if the evidence names none."""

    hosts: tuple[str, ...] = ()
    """Hosts of the named ranks, or the host that is named in place of ranks."""

    evidence: tuple[str, ...] = ()
    hint: str = ""

    @property
    def is_hang(self) -> bool:
        """True unless the ranks work, or the evidence shows nothing."""
        return self.kind not in (HangKind.BUSY, HangKind.UNDECIDED)
