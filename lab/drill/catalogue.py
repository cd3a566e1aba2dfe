"""Faults that drills inject, and the verdict that each one deserves. Pure.

A fault is either a function of the ranks' program (`ranks/drill_rank.py`), which harms only the drill's own ranks, or
it is injected from outside into a node of a lab (`node_faults.py`).
"""

from collections.abc import Iterator
from enum import Enum

from pylaunch.base.dataclass import dataclass


class Library(Enum):
    """Library in which the ranks of a drill meet."""

    PLAIN = "plain"
    """None: ranks do not communicate."""

    TORCH = "torch"
    JAX = "jax"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"


class Effect(Enum):
    """Effect of a fault on a run."""

    ENDS = "ends"
    """A rank or node ends, and with it the run."""

    HANGS = "hangs"
    """The ranks do not advance."""

    NONE = "healthy"
    """None: the run is healthy, and every finding about it is a false alarm."""


class NodeFault(Enum):
    """Fault that a lab injects from outside of the ranks."""

    POWER = "power"
    CABLE = "cable"
    FREEZE = "freeze"
    AGENT = "agent"
    MEMORY = "memory"
    NETWORK = "network"
    STORAGE = "storage"


class Subject(Enum):
    """Subject that a right verdict names."""

    RANK = "rank"
    NODE = "node"


@dataclass(frozen=True)
class Drill:
    """A fault of one kind, with one library."""

    library: Library
    action: str
    """Function of the ranks' program."""

    effect: Effect
    texts: tuple[str, ...] = ()
    """A right verdict, or the lines that are shown with it, contains one of these; () for a healthy run."""

    kinds: tuple[str, ...] = ()
    """Right kinds of the first cause (`verdict.causes.cause_kinds`); () where any will do."""

    subject: Subject = Subject.RANK
    node_fault: NodeFault | None = None
    rank: int | None = None
    """Rank with the fault; None is chosen at random, never rank 0."""

    @property
    def name(self) -> str:
        """Unique name: "torch.is_killed.rank0"."""
        parts = [self.library.value, self.action if self.node_fault is None else self.node_fault.value]
        return ".".join([*parts, *([] if self.rank is None else [f"rank{self.rank}"])])

    @property
    def is_harmless(self) -> bool:
        """True if the fault stays within the ranks of the drill."""
        return self.node_fault is None


BASIC = "nothing"
"""Action of the healthy run that shows that a library works at all."""

_OWN = ("rank-failed",)
_KILLED = ("rank-killed",)

_ENDS = (
    ("raises", _OWN, "RuntimeError: loss is NaN at step 30"),
    ("exits", _OWN, "exited with code 3"),
    ("is_killed", _KILLED, "SIGKILL"),
    ("crashes", _KILLED, "SIGSEGV"),
)
"""Function, kinds, text: with every library."""

_ENDS_OF_PLAIN = (
    ("exits_silently", _OWN, "exited with code 7"),
    ("exits_with_a_message", _OWN, "config.yaml: no key learning_rate"),
    ("is_terminated", _KILLED, "SIGTERM"),
    ("aborts", _OWN, "SIGABRT"),
    ("imports_nothing", _OWN, "No module named 'flash_attention_of_drill'"),
    ("opens_no_file", _OWN, "No such file or directory: '/nonexistent/shard-00007.tar'"),
    ("writes_to_a_full_disk", (*_OWN, "storage"), "No space left on device"),
    ("asks", _OWN, "EOFError"),
    ("allocates_too_much", (*_OWN, "out-of-memory"), "MemoryError"),
    ("opens_too_many", _OWN, "Too many open files"),
    ("starts_a_program_that_fails", _OWN, "CalledProcessError"),
    ("binds_a_port_twice", _OWN, "Address already in use"),
    ("reads_broken_code", _OWN, "SyntaxError"),
    ("asserts", _OWN, "AssertionError: batch has 31 rows, expected 32"),
    ("recurses", _OWN, "RecursionError"),
)

_LEAVES = ("leaves", ("exited-early",), "exited with code 0")
_ENDS_OF_TORCH = (
    _LEAVES,
    ("loses_a_worker", _OWN, "DataLoader worker"),
    ("has_another_model", _OWN, "appears not to match sizes of the same param"),
    ("joins_with_another_shape", ("ranks-disagree",), "different sizes"),
    ("is_late", ("rank-silent",), "had not ended"),
    ("never_joins", ("rank-silent",), "had not ended"),
)
_ENDS_OF = {
    Library.PLAIN: _ENDS_OF_PLAIN,
    Library.TORCH: _ENDS_OF_TORCH,
    Library.JAX: (_LEAVES,),
    Library.ACCELERATE: (_LEAVES,),
    Library.DEEPSPEED: (_LEAVES,),
}
"""More of these with one library."""

_ENDS_OF_NODES = (
    (NodeFault.POWER, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.CABLE, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.FREEZE, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.AGENT, "continues", ("agent-lost",), "answers, but the agent of run", Subject.NODE),
    (NodeFault.MEMORY, "grows", ("out-of-memory",), "out of memory", Subject.RANK),
)

_HANGS = (
    (Library.TORCH, "is_stopped", "stopped"),
    (Library.TORCH, "waits_for_a_lock", "waits_for_a_lock"),
    (Library.TORCH, "skips_a_collective", "skipped all_reduce"),
    (Library.TORCH, "uses_groups_in_another_order", "all_reduce"),
    (Library.JAX, "is_stopped", "stopped"),
    (Library.JAX, "waits_for_a_lock", "waits_for_a_lock"),
    (Library.ACCELERATE, "waits_for_a_lock", "waits_for_a_lock"),
    (Library.DEEPSPEED, "waits_for_a_lock", "waits_for_a_lock"),
)
_HANGS_OF_NODES = (
    (NodeFault.NETWORK, "continues", ("is cut off from", "get no answer"), Subject.NODE),
    (NodeFault.STORAGE, "reads_a_shard", ("reads_a_shard",), Subject.RANK),
)

_HEALTHY = (
    (Library.PLAIN, "is_quiet", None),
    (Library.PLAIN, "is_noisy", None),
    (Library.PLAIN, "raises_and_recovers", None),
    (Library.PLAIN, "forks", None),
    (Library.PLAIN, "evaluate", 0),
    (Library.PLAIN, "starts_late", None),
    (Library.TORCH, "starts_late", None),
    (Library.TORCH, "writes_a_checkpoint", 0),
    (Library.TORCH, "evaluate", 0),
    (Library.TORCH, "loads_data", None),
    (Library.TORCH, "is_noisy", None),
    (Library.TORCH, "raises_and_recovers", None),
    (Library.TORCH, "forks", None),
    (Library.JAX, "compiles", 0),
    (Library.JAX, "writes_a_checkpoint", 0),
    (Library.ACCELERATE, "evaluate", 0),
    (Library.DEEPSPEED, "writes_a_checkpoint", 0),
)


def _catalogue() -> Iterator[Drill]:
    for library in Library:
        yield Drill(library, BASIC, Effect.NONE)
    for library in Library:
        for action, kinds, text in (*_ENDS, *_ENDS_OF[library]):
            yield Drill(library, action, Effect.ENDS, (text,), kinds)
        if library is not Library.PLAIN:
            for action, kinds, text in (*_ENDS, _LEAVES):
                yield Drill(library, action, Effect.ENDS, (text,), kinds, rank=0)
    for library in (Library.PLAIN, Library.TORCH):
        for fault, action, kinds, text, subject in _ENDS_OF_NODES:
            yield Drill(library, action, Effect.ENDS, (text,), kinds, subject, fault)
    for library, action, text in _HANGS:
        yield Drill(library, action, Effect.HANGS, (text,))
    for fault, action, texts, subject in _HANGS_OF_NODES:
        yield Drill(Library.TORCH, action, Effect.HANGS, texts, (), subject, fault)
    for library, action, rank in _HEALTHY:
        yield Drill(library, action, Effect.NONE, rank=rank)


DRILLS = tuple(_catalogue())
"""The healthy run of each library precedes its faults."""
