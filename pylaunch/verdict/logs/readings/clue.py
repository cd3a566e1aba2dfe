"""Cause that one text supports. Pure.

A clue may change the class of a signature, its confidence and its role, and it names ranks only where the text does.
"""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role
from pylaunch.verdict.logs.subject import with_subject


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
ROUTE = ("network-interface",)
"""Further cause of an address that does not answer: a packet filter and a wrong interface look alike."""


def default(match: LogMatch, confidence: Confidence | None = None) -> Clue:
    """Return the class of the signature, with the module, file, variable, port or host that the text names.

    Its confidence is that of the signature without another one.
    """
    signature = match.signature
    cause = "unexplained" if signature.cause is None else signature.cause.id
    also = tuple(each.id for each in signature.also)
    return Clue(cause, with_subject(match), confidence or signature.confidence, also=also)
