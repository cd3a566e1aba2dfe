"""Causes of a failure, ranked, with the evidence for each."""

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.confidence import Confidence


@dataclass(frozen=True)
class Named:
    """Rank, or whole node (then `rank` is None), that caused a failure."""

    host: str
    rank: int | None


@dataclass(frozen=True)
class FailureCause:
    """A cause of a failure."""

    kind: str
    """Stable identifier: "out-of-memory", "path-blocked"; `verdict/causes/cause_kinds.py` has the table."""

    reason: str
    """One line."""

    confidence: Confidence
    named: Named | None = None
    """Rank or node at fault; None if the evidence names nobody."""

    evidence: tuple[str, ...] = ()
    """Lines that support it."""

    question: str = ""
    """Question whose answer would confirm or refute it; "" for one of high confidence."""

    hint: str = ""
    """Command to type next."""

    text_class: str = ""
    """Class of the text that the rank wrote, "storage-full"; "" where no signature recognises it."""

    page: str = ""
    """Topic of `pylaunch help` that explains the class."""

    @property
    def identifier(self) -> str:
        """Kind, and class where the text of the rank is recognised: "storage/storage-full"."""
        return cause_identifier(self.kind, self.text_class)


@dataclass(frozen=True)
class RejectedCause:
    """An observation that looks like a cause and is none."""

    reason: str
    why: str
    """Reason for the rejection."""


def cause_identifier(kind: str, text_class: str) -> str:
    """Return a kind with its class, where there is one of another name."""
    return f"{kind}/{text_class}" if text_class not in ("", kind) else kind
