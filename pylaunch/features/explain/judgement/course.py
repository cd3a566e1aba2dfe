"""Course of a program after a line of its log: progress, results and good ends. Pure."""

from pylaunch.features.explain.judgement.error_form import error_weight
from pylaunch.features.explain.judgement.error_words import any_of
from pylaunch.verdict.logs.scan import LogScan

ENDS_WELL = any_of(
    r"\b(?:train(?:ing|er)?|fit|fine-?tuning|evaluation|worker group|epochs?)\b.{0,60}"
    r"\b(?:finish|completed?|done|succe)",
    r"\b(?:finished|completed) (?:training|successfully)", r"successfully saved", r"exit(?:s|ed) successfully",
    r"\bsav(?:ed|ing) (?:the )?(?:final |last |model )?(?:model|checkpoint|weights)", r"\bSUCCEEDED\b",
    r"exit(?:ed)?(?: with)? (?:exit )?(?:code|status)[:=]? 0\b", r"startup complete", r"train_runtime",
    r"total running time", r"\ball (?:ranks|workers|tasks|tests) (?:finished|done|completed|passed)", r"\b100%\|",
    ignore_case=True,
)  # fmt: skip
"""Good ends of training; a script prints others also after a failure."""

ENDS = any_of("done", "finished", "completed", "success(?:ful(?:ly)?)?", "passed", "bye", "elapsed",
               ignore_case=True, words=True)  # fmt: skip
"""Words of an end that a script prints also after a failure."""

_RESULTS = any_of(
    "^# Avg bus bandwidth",
    "^# Out of bounds values",
    r"^ {0,12}\d{1,15} {1,12}\d{1,15} {1,12}[a-z]\w{2,10} {1,12}\w{3,4} ",
)
"""Results of nccl-tests: collectives that have ended."""


def continued(scan: LogScan, line: int, *, has_failed: bool) -> bool:
    """Return True if the log shows progress, results or a good end after a line.

    After a failure, progress without a time counts only if there was some before the line, too: Python may flush its
    prints at the exit.
    """
    numbers = [number for of_process in scan.progress.values() for number in of_process]
    later = sum(1 for number in numbers if number > line)
    if later and (scan.times_progress or later < len(numbers) or not has_failed):
        return True
    words = (ENDS_WELL, _RESULTS) if has_failed else (ENDS_WELL, _RESULTS, ENDS)
    after = [each.text for each in scan.tail if each.line > line]
    return any(each.search(text) for text in after if error_weight(text) is None for each in words)
