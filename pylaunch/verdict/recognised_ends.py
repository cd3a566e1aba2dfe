"""Classes of failures that ranks report themselves: signatures of texts, applied to the ends of a run. Pure.

A class adds to a cause and never names another rank: the ends of all ranks have decided whose failure was the first.
"""

import re
from collections.abc import Sequence

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.causes.cause_kinds import advised
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import ABSTAINING, judge_texts
from pylaunch.verdict.logs.line import Origin
from pylaunch.verdict.logs.scan import LogScan, LogSearch, scan
from pylaunch.verdict.logs.signature import CauseClass, SignatureCatalogue
from pylaunch.verdict.logs.traceback import CHAINED
from pylaunch.verdict.logs.uncaught import EXCEPTION
from pylaunch.verdict.rank_end import without_rank

PAGES = "errors-"
"""Beginning of the topics of the pages about signatures."""

MISSING_MODULE = "import-path"
UNSET_VARIABLE = "env-missing"
MOST_TEXTS = 8
"""Different texts of ranks that failed alike which are searched."""

ASKING = ("gpu-unexplained", "dataloader-worker")
"""Classes without a cause, whose question helps where a rank has nothing but their text."""

DIRECTING = (
    "cuda-oom-runtime", "errno-nospc-unnamed", "nccl-ib-rnr", "nccl-ib-loclen", "nccl-ib-locprot",
    "nccl-ib-remote-access",
)  # fmt: skip
"""Signatures that are not sure, or have several causes, whose class has the right next step for the end of a rank."""

GENERAL = ("rank-failed", "launcher-failed")
"""Kinds that the class of a text makes more precise."""

_RUN = re.compile(r"\bRUN\b")
"""Word in hints in whose place the run is."""


def scan_of_end(search: LogSearch, end: RankEnd) -> LogScan:
    """Search the last lines and the exception of an end."""
    lines = [*end.last_lines, *((end.error,) if end.error else ())]
    text = "\n".join(lines).encode("utf-8", "replace")
    return scan(search, f"record of {end.who}", [text], Origin(end.host, end.rank))


def with_classes(outcome: Outcome, catalogue: SignatureCatalogue, plan: RunPlan | None = None) -> Outcome:
    """Return `outcome` with the class, question and hint of the text where a named rank wrote a recognised one.

    With the `plan` of the run, the hint for a missing module names the Python that lacks it.
    """
    ends = {(end.host, end.rank): end for end in outcome.ends if end.failed and not end.symptom}
    search = LogSearch.of(catalogue)

    def about(cause: FailureCause) -> list[RankEnd]:
        """Return the ends of which `cause` is: that of the named rank, or all of those that failed alike."""
        if cause.named is None:
            return [*ends.values()] if cause is outcome.causes[0] else []
        end = ends.get((cause.named.host, cause.named.rank))
        return [] if end is None else [end]

    def recognised(cause: FailureCause) -> FailureCause:
        own = about(cause)
        found, asks = _class_of_all(catalogue, search, own)
        is_of_kind = found is not None and (found.kind == cause.kind or cause.kind in GENERAL)
        if found is not None and (found.id in ASKING or (asks and is_of_kind)):
            return replace(cause, question=found.sure, hint=cause.hint or found.check, page=f"{PAGES}{found.page}")
        if found is None or not is_of_kind:
            return cause
        command = advised(replace(cause, kind=found.kind)).hint
        hint = command if command.startswith("pylaunch ") else found.fix[0]
        if found.id == UNSET_VARIABLE:
            hint = "read RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which each rank has"
        if found.id == MISSING_MODULE and plan is not None and (place := _place_of_packages(plan, own[0].host)):
            own_code = "ship its directory, --sync DIR, and start what imports its own package with -m PACKAGE.MODULE"
            hint = f"install the package {place}; code of your own: {own_code}"
        return replace(
            cause, kind=found.kind, question=found.sure, hint=hint, text_class=found.id, page=f"{PAGES}{found.page}"
        )

    found = [recognised(each) for each in outcome.causes]
    if plan is not None:
        found = [replace(each, hint=_RUN.sub(plan.run, each.hint)) for each in found]
    return replace(outcome, causes=tuple(found))


def _place_of_packages(plan: RunPlan, host: str) -> str:
    """Return where ranks on `host` look for packages; "" for the environment of `provision`."""
    if plan.job.container is not None:
        return f"in the image {plan.job.container.image}"
    python = plan.job.python or {node.host.name: node.host.python for node in plan.nodes}.get(host)
    return "" if python is None else f"for {python} on every host"


def _class_of_all(
    catalogue: SignatureCatalogue, search: LogSearch, ends: list[RankEnd]
) -> tuple[CauseClass | None, bool]:
    """Return the class that all of `ends` have, and whether only its question applies; None if they differ or one has
    none."""
    texts = {(end.error, end.last_lines[-1:]): end for end in ends}
    found = [_class_of(catalogue, search, end) for end in [*texts.values()][:MOST_TEXTS]]
    return (found[0] if found and all(each == found[0] for each in found) else None) or (None, False)


def _class_of(catalogue: SignatureCatalogue, search: LogSearch, end: RankEnd) -> tuple[CauseClass, bool] | None:
    """Return the class of the exception of a rank or of one in its chain; without an exception, of its last lines."""
    alone = replace(end, last_lines=())
    return _sure(catalogue, search, alone) or _sure(catalogue, search, end)


def _sure(catalogue: SignatureCatalogue, search: LogSearch, end: RankEnd) -> tuple[CauseClass, bool] | None:
    verdict = judge_texts(catalogue, LogFacts([scan_of_end(search, end)]))
    first = verdict.first
    if first is None or (
        first.confidence is not Confidence.HIGH and not first.also and first.signature not in DIRECTING
    ):
        return None
    found = first.cause, first.cause.id in ASKING or (bool(first.also) and first.signature not in DIRECTING)
    if first.cause.id in ABSTAINING and first.cause.id not in ASKING:
        return None
    later = end.last_lines[first.evidence[0].line :]
    if _is_in_traceback(end.error, later):
        return found
    if any(cause.signature == EXCEPTION for cause in verdict.causes):
        return None
    is_own = not end.error or not end.last_lines or any(line.lstrip().startswith(CHAINED) for line in later)
    return found if is_own else None


def _is_in_traceback(error: str, later: Sequence[str]) -> bool:
    """Return True if only source lines are between a line and the exception of a rank: the line is in its traceback."""
    plain = [without_rank(line) for line in later]
    rest = [line for line in plain if not line.startswith(" ")]
    return len(rest) == 1 and error.startswith(rest[0])
