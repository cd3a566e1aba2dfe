"""The framework that fits a script, judged by the names in its source. Pure; also used by the controller."""

from __future__ import annotations

from dataclasses import dataclass

from pylaunch.agent.shared.script_imports import Names

ACCELERATE = (
    "accelerate.Accelerator", "accelerate.PartialState", "accelerate.state.AcceleratorState", "transformers.Trainer",
    "transformers.Seq2SeqTrainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl",
)  # fmt: skip
"""They use accelerate's state, which on CPUs makes a world of its own on every node unless it is told to use them."""

MPI = ("mpi4py", "horovod")


@dataclass(frozen=True)
class FrameworkChoice:
    """A framework, as `--framework` calls it, and the name in the source that asks for it."""

    framework: str
    because: str
    path: str
    """The file that has this name."""


def choose(sources: list[Names]) -> FrameworkChoice | None:
    """The framework of a program whose files are `sources`, itself first; None where torchrun fits, or is all we know.

    The first file that asks for a framework decides.
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
    """The package through which the program itself expects to be started by an MPI launcher."""
    return next((name for name in MPI if sources and name in sources[0].packages), None)
