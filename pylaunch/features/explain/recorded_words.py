"""Weights of words that the package contains, read once."""

from functools import cache
from importlib import resources

from pylaunch.features.explain.judgement.classifier import WordClassifier, parse_classifier


@cache
def classifier() -> WordClassifier:
    """Return the classifier of `words.txt`."""
    file = resources.files("pylaunch.features.explain") / "words.txt"
    return parse_classifier(file.read_text(encoding="utf-8"))
