"""Confidence of a verdict: on the end of a run, on a hang and on the text of a log."""

from enum import Enum


class Confidence(Enum):
    """Degree to which the evidence excludes other causes, the highest first."""

    HIGH = "high"
    """The evidence allows no other cause."""

    MEDIUM = "medium"
    LOW = "low"
    """It fits the evidence, and so may others."""
