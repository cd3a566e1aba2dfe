"""`python -m lab drill`: inject faults, and score the verdicts."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from lab.drill.catalogue import DRILLS, Drill, Effect, Library
from lab.drill.exercise import Ground, SkippedDrill, exercise_all
from lab.drill.score import DrillScore, Naming
from lab.lab import Lab
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ExitCode, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.job import Framework
from pylaunch.terminal import console, document, options
from pylaunch.transport.interrupts import signals

EXAMPLES = """\b
Examples:
  python -m lab up && python -m lab drill --lab lab --library plain --python /usr/bin/python3
  python -m lab drill --lab lab --library torch --effect hangs
  python -m lab drill -i cluster.ini --yes torch.raises torch.is_killed
"""


@dataclass(frozen=True)
class DrillFlags:
    """Flags of `drill` as they are parsed."""

    lab: str | None
    library: tuple[str, ...]
    effect: tuple[str, ...]
    framework: str | None
    python: str | None
    seed: int | None
    yes: bool
    listed: bool


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--lab", metavar="NAME", help="Drill on the nodes of this lab: faults of nodes can be injected, too.")
@click.option(
    "--library",
    type=click.Choice([each.value for each in Library]),
    multiple=True,
    help="Only faults of ranks that meet with this library.  [default: all]",
)
@click.option(
    "--effect",
    type=click.Choice([each.value for each in Effect]),
    multiple=True,
    help="Only faults that end a rank or node, that stop the progress, or healthy runs.  [default: all]",
)
@click.option(
    "--framework",
    type=click.Choice([Framework.DIRECT.value, Framework.TORCHRUN.value]),
    help="How ranks of torch are started.  [default: direct]",
)
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@click.option("--seed", type=int, metavar="N", help="Choice of the ranks with the faults.  [default: random]")
@click.option("--yes", is_flag=True, help="Start runs with faults on hosts that are no lab.")
@click.option("--list", "listed", is_flag=True, help="Print the faults; contact no host.")
@options.as_json
@click.argument("names", nargs=-1, metavar="[FAULT]...")
def command(inventory: Path | None, limit: str | None, names: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Start runs with one fault each, and score the verdicts: was the fault detected, was the right cause, rank and
    node named, after how many seconds, and is anything left on the nodes.

    On a lab, faults of nodes are injected as well: power, network, memory, storage. On other hosts, only faults within
    the ranks of the drill's own runs, and only with --yes. Exit code 1 if a verdict was wrong, something is left,
    or a drill was skipped.
    """
    flags = DrillFlags(**given)
    chosen = _chosen(names, flags)
    if flags.listed:
        show_catalogue(chosen, as_json=as_json)
        return ExitCode.DONE
    lab = None if flags.lab is None else Lab.load(flags.lab)
    cluster = load_cluster(inventory if lab is None else lab.inventory, limit=limit)
    if lab is None:
        chosen = _harmless(chosen, flags)
    seed = random.randrange(10**6) if flags.seed is None else flags.seed
    framework = None if flags.framework is None else Framework(flags.framework)
    ground = Ground(cluster, lab, framework, flags.python, seed)
    console.say(f"{len(chosen)} drills on {len(cluster.hosts)} hosts, seed {seed}")
    done = exercise_all(chosen, ground, signals, show)
    if as_json:
        document.show(_document(done, seed))
    else:
        conclude(done)
    is_right = all(isinstance(each, DrillScore) and each.is_acceptable for each in done)
    return ExitCode.DONE if is_right else ExitCode.JOB_FAILED


def _chosen(names: tuple[str, ...], flags: DrillFlags) -> tuple[Drill, ...]:
    """Return the drills that flags and names select, the healthy run of each library first."""
    known = {each.name for each in DRILLS}
    for name in names:
        if name not in known:
            raise UsageError(f"no fault is named {name}", hint="python -m lab drill --list")
    chosen = tuple(
        each
        for each in DRILLS
        if (not names or each.name in names)
        and (not flags.library or each.library.value in flags.library)
        and (not flags.effect or each.effect.value in flags.effect)
    )
    if not chosen:
        raise UsageError("no fault has this library and effect", hint="python -m lab drill --list")
    return chosen


def _harmless(chosen: tuple[Drill, ...], flags: DrillFlags) -> tuple[Drill, ...]:
    harmful = [each.name for each in chosen if not each.is_harmless]
    harmless = tuple(each for each in chosen if each.is_harmless)
    if not harmless:
        raise UsageError(
            f"{', '.join(harmful)}: faults of nodes are injected into a lab only", hint="python -m lab drill --lab NAME"
        )
    if not flags.yes:
        raise UsageError(
            "the hosts of this inventory are no lab: drills start runs there that fail or hang on purpose",
            hint="with your consent: the same command with --yes; without: python -m lab up, then drill --lab lab",
        )
    if harmful:
        console.say(f"note: {len(harmful)} faults of nodes are left out: these hosts are no lab")
    return harmless


_WIDTH = 38
_EFFECTS = {Effect.ENDS: "a rank or node ends", Effect.HANGS: "ranks do not advance", Effect.NONE: "healthy"}


def show(done: DrillScore | SkippedDrill) -> None:
    """Print one drill."""
    if isinstance(done, SkippedDrill):
        console.say(f"skipped  {done.drill.name:<{_WIDTH}} {done.reason}", style="dim")
        return
    mark = "right" if done.is_right else "partly" if done.is_acceptable else "WRONG"
    seconds = "" if done.seconds is None else f"{done.seconds:.1f} s"
    console.say(
        f"{mark:<8} {done.drill.name:<{_WIDTH}} {seconds:>7}  {done.reason}",
        style="red" if not done.is_acceptable else None,
    )
    if not done.is_right:
        console.quote(_wrong(done), indent=" " * 9 + "| ")


def _wrong(done: DrillScore) -> Iterable[str]:
    guilty = f"rank {done.guilty.rank} on {done.guilty.host}"
    if not done.is_detected:
        yield "a false alarm" if done.drill.effect is Effect.NONE else "not detected"
    elif not done.has_right_cause:
        yield f"expected one of: {', '.join((*done.drill.kinds, *done.drill.texts))}"
    if done.drill.effect is not Effect.NONE:
        yield f"names: {done.naming.value}; the fault was in {guilty}"
    yield from done.leftovers


def conclude(done: Sequence[DrillScore | SkippedDrill]) -> None:
    """Print the sums of all drills, by effect."""
    scores = [each for each in done if isinstance(each, DrillScore)]
    rows = [
        (text, *totals(found))
        for effect, text in _EFFECTS.items()
        if (found := [each for each in scores if each.drill.effect is effect])
    ]
    console.table(
        ("effect", "drills", "detected", "cause", "named", "nobody", "accused", "median / worst s", "left"), rows
    )


def totals(scores: Sequence[DrillScore]) -> tuple[str, ...]:
    """Return the cells of `scores`, as `conclude` names them."""
    named = Counter(each.naming for each in scores)
    seconds = sorted(each.seconds for each in scores if each.seconds is not None)
    counts = (
        len(scores), sum(each.is_detected for each in scores), sum(each.has_right_cause for each in scores),
        named[Naming.RIGHT], named[Naming.NOBODY], named[Naming.WRONG],
    )  # fmt: skip
    duration = f"{seconds[len(seconds) // 2]:.1f} / {seconds[-1]:.1f}" if seconds else ""
    return (*map(str, counts), duration, str(sum(bool(each.leftovers) for each in scores)))


def _document(done: Sequence[DrillScore | SkippedDrill], seed: int) -> dict[str, object]:
    """Return all drills as data."""
    return {
        "seed": seed,
        "drills": [
            {
                **_as_data(each.drill),
                "host": each.guilty.host,
                "rank": each.guilty.rank,
                "right": each.is_right,
                "detected": each.is_detected,
                "right_cause": each.has_right_cause,
                "named": each.naming.value,
                "seconds": each.seconds,
                "leftovers": list(each.leftovers),
                "kind": each.kind or None,
                "reason": each.reason,
            }
            for each in done
            if isinstance(each, DrillScore)
        ],
        "skipped": [{**_as_data(each.drill), "reason": each.reason} for each in done if isinstance(each, SkippedDrill)],
    }


def show_catalogue(drills: Sequence[Drill], *, as_json: bool) -> None:
    """Print faults without exercising them."""
    if as_json:
        document.show({"faults": [_as_data(each) for each in drills]})
        return
    console.table(
        ("fault", "effect", "where", "verdict"),
        [
            (
                each.name,
                _EFFECTS[each.effect],
                "any cluster" if each.is_harmless else "lab",
                "; ".join(each.texts) or "none",
            )
            for each in drills
        ],
    )


def _as_data(drill: Drill) -> dict[str, object]:
    return {
        "fault": drill.name,
        "library": drill.library.value,
        "effect": drill.effect.value,
        "is_harmless": drill.is_harmless,
    }
