"""Framework that fits a script, chosen by the names in its source. Pure; also used by the controller."""

from __future__ import annotations

from pylaunch.agent.shared.script_imports import STORE, Names
from pylaunch.base.dataclass import dataclass

DEFAULT = "direct"
"""Framework of a Python script that requires no other one."""

TORCHRUN = "torchrun"

ACCELERATE = (
    "accelerate.Accelerator", "accelerate.PartialState", "accelerate.state.AcceleratorState", "transformers.Trainer",
    "transformers.Seq2SeqTrainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl",
)  # fmt: skip
"""Names that use accelerate's state. On CPUs that forms a separate world per node without accelerate's variables."""

MPI = ("mpi4py", "horovod")

TIMER = "elastic.timer"
"""Package of torch.distributed whose timers a server in torchrun's agent watches; it kills ranks whose time is over."""

LAUNCHER_VARIABLES = (
    "TORCHELASTIC_ENABLE_FILE_TIMER",
    "TORCHELASTIC_TIMER_FILE",
    "TORCHELASTIC_HEALTH_CHECK_PORT",
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
)
"""Variables with which a user asks torchrun's agent to do something (torch 2.13, `local_elastic_agent.py`)."""

AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""Variable that is True if torchrun's agent hosts the store at MASTER_ADDR:MASTER_PORT."""

PORT = "MASTER_PORT"


@dataclass(frozen=True)
class FrameworkChoice:
    """Framework, as an argument of `--framework`, and the name in the source that requires it."""

    framework: str
    because: str
    path: str
    """File that contains the name."""


def choose(sources: list[Names]) -> FrameworkChoice | None:
    """Return the framework that a program with the files `sources`, main file first, requires; None if DEFAULT fits.

    The first file that requires a framework other than torchrun decides.
    """
    packages = {package for source in sources for package in source.packages}
    for source in sources:
        for name in ACCELERATE:
            is_used = name in source.attributes and name.partition(".")[0] in source.packages
            if name in source.imports or is_used:
                return FrameworkChoice("accelerate", name, source.path)
        if "deepspeed" in source.packages:
            takes_rank = any(
                word.lstrip("-").replace("-", "_") == "local_rank" for each in sources for word in each.words
            )
            return FrameworkChoice("deepspeed" if takes_rank else DEFAULT, "deepspeed", source.path)
        if "jax" in source.packages:
            joins = sorted(name for name in source.attributes if name.startswith("jax.distributed"))
            if joins or "torch" not in packages:
                return FrameworkChoice("jax", [*joins, "jax"][0], source.path)
    return _needs_torchrun(sources)


def _needs_torchrun(sources: list[Names]) -> FrameworkChoice | None:
    """Return torchrun if `sources` ask its agent for something, also under a condition; None if they do not."""
    for source in sources:
        timers = (name for name in source.attributes if f".{TIMER}." in f".{name}.")
        variables = source.words.intersection((*LAUNCHER_VARIABLES, AGENT_STORE))
        if found := min(timers, default="") or min(variables, default=""):
            return FrameworkChoice(TORCHRUN, found, source.path)
    is_client_only = {may_host for source in sources for may_host in source.stores} == {False}
    if is_client_only and any(PORT in source.words for source in sources):
        path = next(source.path for source in sources if source.stores)
        return FrameworkChoice(TORCHRUN, f"{STORE}, a client of the store at {PORT}", path)
    return None


def needs_mpi(sources: list[Names]) -> str | None:
    """Return the package in the program that requires a start by an MPI launcher; None without one."""
    return next((name for name in MPI if sources and name in sources[0].packages), None)
