"""Progress of a rank as its output shows it, for scripts that do not call `pylaunch.runtime.step`. Pure."""

import re

from pylaunch.base.dataclass import dataclass

LONGEST_LINE = 2000
"""Characters of a line that are looked at, from its end."""

_OF = r"(?:\s*(?:/|of)\s*(?P<total>\d{1,12}))?"
_PATTERNS = (
    # A bar of tqdm: "45%|####  | 45/100 [00:12<00:15, 3.6it/s]" (tqdm/std.py, `format_meter`).
    ("step", re.compile(r"(?<![\w.])(?P<number>\d{1,12})/(?P<total>\d{1,12}) \[\d+:\d\d")),
    # "step 12/100", "iteration   100/ 500000" (Megatron-LM), "global_step=12", "Iter: 12 of 100".
    (
        "step",
        re.compile(
            rf"(?i)(?<![a-z])(?:step|iter|iteration|batch|update)['\"]?[\s:=#]*\[?\s*(?P<number>\d{{1,12}}){_OF}"
        ),
    ),
    # "Epoch: [3][ 120/5005]" (the examples of torchvision).
    ("step", re.compile(r"\[\s*(?P<number>\d{1,12})/(?P<total>\d{1,12})\]")),
    # "epoch 3/10", and the dictionaries of the Trainer of transformers: {'loss': 0.53, 'epoch': 0.25}.
    ("epoch", re.compile(rf"(?i)(?<![a-z])epoch['\"]?[\s:=#]*\[?\s*(?P<number>\d{{1,6}}(?:\.\d{{1,9}})?)(?!\d){_OF}")),
)


@dataclass(frozen=True)
class LoggedStep:
    """A step, or an epoch, that a line names."""

    unit: str
    """"step" or "epoch"."""

    number: float
    total: float
    """0 where the line does not name it."""


def logged_step(line: str) -> LoggedStep | None:
    """Return the step that `line` names, else its epoch; None for neither."""
    end = line[-LONGEST_LINE:]
    for unit, pattern in _PATTERNS:
        for found in reversed(list(pattern.finditer(end))):
            number, total = float(found["number"]), float(found["total"] or 0)
            if not total or number <= total:
                return LoggedStep(unit, number, total)
    return None
