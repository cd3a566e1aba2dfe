"""Faults that drills inject, and the verdict that each one deserves. Pure.

A fault is either a function of the ranks' program (`ranks/drill_rank.py`), which harms only the drill's own ranks, or
it is injected from outside into a node of a lab (`node_faults.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Program(Enum):
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
    """A fault of one kind, in one program."""

    program: Program
    action: str
    """Function of the ranks' program."""

    effect: Effect
    texts: tuple[str, ...] = ()
    """A right verdict, or the lines that are shown with it, contains one of these; () for a healthy run."""

    kinds: tuple[str, ...] = ()
    """Right kinds of the first cause (`explain.cause_kinds`); () where any will do."""

    subject: Subject = Subject.RANK
    node_fault: NodeFault | None = None
    rank: int | None = None
    """Rank with the fault; None is chosen at random, never rank 0."""

    @property
    def name(self) -> str:
        """Unique name: "torch.is_killed.rank0"."""
        parts = [self.program.value, self.action if self.node_fault is None else self.node_fault.value]
        return ".".join([*parts, *([] if self.rank is None else [f"rank{self.rank}"])])

    @property
    def is_harmless(self) -> bool:
        """True if the fault stays within the ranks of the drill."""
        return self.node_fault is None


BASIC = "nothing"
"""Action of the healthy run that shows that a program works at all."""

_OWN = ("rank-failed",)
_KILLED = ("rank-killed",)

_ENDS = (
    ("raises", _OWN, "RuntimeError: loss is NaN at step 30"),
    ("exits", _OWN, "exited with code 3"),
    ("is_killed", _KILLED, "SIGKILL"),
    ("crashes", _KILLED, "SIGSEGV"),
)
"""Function, kinds, text: in every program."""

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
    Program.PLAIN: _ENDS_OF_PLAIN,
    Program.TORCH: _ENDS_OF_TORCH,
    Program.JAX: (_LEAVES,),
    Program.ACCELERATE: (_LEAVES,),
    Program.DEEPSPEED: (_LEAVES,),
}
"""More of these in one program."""

_ENDS_OF_NODES = (
    (NodeFault.POWER, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.CABLE, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.FREEZE, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.AGENT, "continues", ("node-lost",), "lost", Subject.NODE),
    (NodeFault.MEMORY, "grows", ("out-of-memory",), "out of memory", Subject.RANK),
)

_HANGS = (
    (Program.TORCH, "is_stopped", "stopped"),
    (Program.TORCH, "waits_for_a_lock", "waits_for_a_lock"),
    (Program.TORCH, "skips_a_collective", "skipped all_reduce"),
    (Program.TORCH, "uses_groups_in_another_order", "all_reduce"),
    (Program.JAX, "is_stopped", "stopped"),
    (Program.JAX, "waits_for_a_lock", "waits_for_a_lock"),
    (Program.ACCELERATE, "waits_for_a_lock", "waits_for_a_lock"),
    (Program.DEEPSPEED, "waits_for_a_lock", "waits_for_a_lock"),
)
_HANGS_OF_NODES = (
    (NodeFault.NETWORK, "continues", ("is cut off from", "get no answer"), Subject.NODE),
    (NodeFault.STORAGE, "reads_a_shard", ("reads_a_shard",), Subject.RANK),
)

_HEALTHY = (
    (Program.PLAIN, "is_quiet", None),
    (Program.PLAIN, "is_noisy", None),
    (Program.PLAIN, "raises_and_recovers", None),
    (Program.PLAIN, "forks", None),
    (Program.PLAIN, "evaluate", 0),
    (Program.PLAIN, "starts_late", None),
    (Program.TORCH, "starts_late", None),
    (Program.TORCH, "writes_a_checkpoint", 0),
    (Program.TORCH, "evaluate", 0),
    (Program.TORCH, "loads_data", None),
    (Program.TORCH, "is_noisy", None),
    (Program.TORCH, "raises_and_recovers", None),
    (Program.TORCH, "forks", None),
    (Program.JAX, "compiles", 0),
    (Program.JAX, "writes_a_checkpoint", 0),
    (Program.ACCELERATE, "evaluate", 0),
    (Program.DEEPSPEED, "writes_a_checkpoint", 0),
)


def _catalogue() -> Iterator[Drill]:
    for program in Program:
        yield Drill(program, BASIC, Effect.NONE)
    for program in Program:
        for action, kinds, text in (*_ENDS, *_ENDS_OF[program]):
            yield Drill(program, action, Effect.ENDS, (text,), kinds)
        if program is not Program.PLAIN:
            for action, kinds, text in (*_ENDS, _LEAVES):
                yield Drill(program, action, Effect.ENDS, (text,), kinds, rank=0)
    for program in (Program.PLAIN, Program.TORCH):
        for fault, action, kinds, text, subject in _ENDS_OF_NODES:
            yield Drill(program, action, Effect.ENDS, (text,), kinds, subject, fault)
    for program, action, text in _HANGS:
        yield Drill(program, action, Effect.HANGS, (text,))
    for fault, action, texts, subject in _HANGS_OF_NODES:
        yield Drill(Program.TORCH, action, Effect.HANGS, texts, (), subject, fault)
    for program, action, rank in _HEALTHY:
        yield Drill(program, action, Effect.NONE, rank=rank)


DRILLS = tuple(_catalogue())
"""The healthy run of each program precedes its faults."""
