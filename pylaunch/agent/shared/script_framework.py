"""Framework that fits a script, chosen by the names in its source. Pure; also used by the controller."""

from __future__ import annotations

from dataclasses import dataclass

from pylaunch.agent.shared.script_imports import Names

ACCELERATE = (
    "accelerate.Accelerator", "accelerate.PartialState", "accelerate.state.AcceleratorState", "transformers.Trainer",
    "transformers.Seq2SeqTrainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl",
)  # fmt: skip
"""Names that use accelerate's state. On CPUs that forms a separate world per node without accelerate's variables."""

MPI = ("mpi4py", "horovod")


@dataclass(frozen=True)
class FrameworkChoice:
    """Framework, as an argument of `--framework`, and the name in the source that requires it."""

    framework: str
    because: str
    path: str
    """File that contains the name."""


def choose(sources: list[Names]) -> FrameworkChoice | None:
    """Return the framework of a program with the files `sources`, main file first; None if torchrun fits or none does.

    The first file that requires a framework decides.
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
            return FrameworkChoice("deepspeed" if takes_rank else "direct", "deepspeed", source.path)
        if "jax" in source.packages:
            joins = sorted(name for name in source.attributes if name.startswith("jax.distributed"))
            if joins or "torch" not in packages:
                return FrameworkChoice("jax", [*joins, "jax"][0], source.path)
    return None


def needs_mpi(sources: list[Names]) -> str | None:
    """Return the package in the program that requires a start by an MPI launcher; None without one."""
    return next((name for name in MPI if sources and name in sources[0].packages), None)
