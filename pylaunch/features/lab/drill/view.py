"""Drills, as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pylaunch.features.lab.drill.catalogue import Drill, Effect
from pylaunch.features.lab.drill.exercise import SkippedDrill
from pylaunch.features.lab.drill.score import DrillScore, Naming
from pylaunch.terminal import console, document

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


def as_json(done: Sequence[DrillScore | SkippedDrill], seed: int) -> dict[str, object]:
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
