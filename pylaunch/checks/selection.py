"""Select checks: --only, --skip and --deep, by id or by subject. Pure."""

import difflib
from collections.abc import Sequence

from pylaunch.checks.check import Check
from pylaunch.errors import UsageError
from pylaunch.model.job import EVERY

NEAREST = 3


def select(
    checks: Sequence[Check], *, only: Sequence[str] = (), skip: Sequence[str] = (), deep: bool = False
) -> tuple[Check, ...]:
    """Return the selected checks, in their order. An id names one check, a subject ("storage") all of its checks.

    `only` selects deep checks too. Raises UsageError for unknown names.
    """
    unknown = [name for name in (*only, *skip) if not any(matches(check.id, name) for check in checks)]
    if unknown:
        raise UsageError(
            f"no such check: {', '.join(unknown)}",
            evidence=[f"{name}: {suggestion}" for name in unknown if (suggestion := nearest(checks, name))],
            hint="pylaunch check --list",
        )
    chosen = [check for check in checks if not only or any(matches(check.id, name) for name in only)]
    return tuple(
        check
        for check in chosen
        if (deep or only or not check.deep) and not any(matches(check.id, name) for name in skip)
    )


def matches(check: str, name: str) -> bool:
    """Return whether `name` is the id `check`, its subject, or EVERY."""
    return name in (check, check.partition(".")[0], EVERY)


def nearest(checks: Sequence[Check], name: str) -> str:
    """Return a suggestion of similar names; "" when there is none."""
    names = [*(check.id for check in checks), *dict.fromkeys(check.id.partition(".")[0] for check in checks)]
    tails = {check.id.partition(".")[2]: check.id for check in checks}
    near = difflib.get_close_matches(name, names, NEAREST) or [
        tails[tail] for tail in difflib.get_close_matches(name.rpartition(".")[2], tails, NEAREST)
    ]
    near = near or [check.id for check in checks if name in check.id or name in check.title][:NEAREST]
    return f"did you mean {', '.join(near)}?" if near else ""
