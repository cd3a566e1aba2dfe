"""Cause that one text supports, with what the text is about. Pure.

A clue may change the class of a signature, its confidence and its role, and it names ranks only where the text does.
"""

import re
from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.hostset import named_ranks
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role, fields_of

LONGEST_VALUE = 120
"""Characters of one value of a log in a verdict."""

RANKS = ("ranks", "ranks2")
"""Groups with the ranks that a text names as the cause."""


@dataclass(frozen=True)
class Clue:
    """Cause that a match supports."""

    cause: str
    """Id of the class."""

    text: str
    """Clause for the verdict."""

    confidence: Confidence = Confidence.MEDIUM
    ranks: tuple[int, ...] = ()
    """Ranks that the text names as the cause."""

    role: Role | None = None
    """Role in these logs, where it is another one than the signature's."""

    because: str = ""
    """Fact that decided between the possible causes."""

    also: tuple[str, ...] = ()
    """Ids of the other classes that the text admits, where no fact decides between them."""


Reader = Callable[[LogMatch, LogFacts], Clue]


def default(match: LogMatch, confidence: Confidence | None = None) -> Clue:
    """Return the class of the signature, or of the case whose words its text has, with the ranks that the text names.

    Its confidence is that of the signature without another one.
    """
    signature, text = match.signature, f"{match.text} {match.groups.get('rest', '')}"
    named = " ".join(match.groups.get(group, "") for group in RANKS)
    ranks = tuple(sorted({int(each) for each in re.findall(r"(?<!replica:)(?<!\d)\d{1,7}", named)}))
    if (case := next((each for each in signature.cases if each.has.search(text)), None)) is not None:
        also = tuple(each.id for each in case.also)
        return Clue(case.cause.id, with_subject(match, case.means), case.confidence, ranks, case.role, also=also)
    cause = "unexplained" if signature.cause is None else signature.cause.id
    also = tuple(each.id for each in signature.also)
    means = with_subject(match, signature.means)
    means = f"{means}: {named_ranks(ranks)}" if ranks else means
    return Clue(cause, means, confidence or signature.confidence, ranks, also=also)


def with_subject(match: LogMatch, means: str) -> str:
    """Return the meaning of a match, with its subject where the text names it."""
    subject = subject_of(match)
    if not subject:
        return means
    return f"{means} ({subject})" if ":" in means else f"{means}: {subject}"


def subject_of(match: LogMatch) -> str:
    """Return what the text of a match is about; "" where it does not show it. Values are bounded and safe to show."""
    groups = {name: _shortened(value) for name, value in match.groups.items() if value.strip()}
    forms = (form for form in match.signature.shows if set(fields_of(form)) <= groups.keys())
    return next((form.format_map(groups) for form in forms), "")


def _shortened(value: str) -> str:
    """Return a value in its line: the end of a long path shows more than its beginning."""
    shown = visible_line(value.strip().rstrip(".,"))
    if len(shown) <= LONGEST_VALUE:
        return shown
    return "…" + shown[-LONGEST_VALUE:] if "/" in shown else shown[:LONGEST_VALUE] + "…"
