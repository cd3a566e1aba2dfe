"""Confidence of a verdict."""

from enum import Enum


class Confidence(Enum):
    """Degree to which the evidence excludes other causes."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
