"""Linear classifier over the words of logs: the causes of texts with such words, whose cause is known. Pure.

Multinomial logistic regression on tf-idf (1 + ln count, times the idf of the word, of length one; Manning, Raghavan and
Schütze, *Introduction to Information Retrieval*, 6.2), fitted by `benchmarks/train_classifier.py`.
"""

from collections.abc import Mapping
from math import exp, log, sqrt

from pylaunch.base.dataclass import dataclass

NO_FAILURE = "none"
"""Class of logs of healthy runs."""

LIKELY = 0.15
"""Least share of the likeliest class, below which none is named."""

POSSIBLE = 0.05
"""Least share of another one."""

GENERAL = {"framework-config": 0.3, "program-error": 0.3}
"""Least share of classes with so many words that an unknown text is nearest to them."""

MOST = 3
"""Classes that are named."""


@dataclass(frozen=True)
class WordClassifier:
    """Weights of words, as `parse_classifier` reads them."""

    classes: tuple[str, ...]
    """Names of causes, and NO_FAILURE."""

    bias: tuple[float, ...]
    """One per class."""

    words: Mapping[str, tuple[float, tuple[tuple[int, float], ...]]]
    """Per word its idf, and its weights by the index of their class; those that are missing are 0."""

    def shares(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Return the share of each class among texts with the words of `counts`; the shares add up to 1."""
        known = {word: (1 + log(count)) * self.words[word][0] for word, count in counts.items() if word in self.words}
        length = sqrt(sum(value * value for value in known.values())) or 1.0
        scores = list(self.bias)
        for word, value in known.items():
            for at, weight in self.words[word][1]:
                scores[at] += weight * value / length
        most = max(scores)
        odds = [exp(score - most) for score in scores]
        whole = sum(odds)
        return {name: part / whole for name, part in zip(self.classes, odds, strict=True)}


def likely(shares: Mapping[str, float]) -> tuple[str, ...]:
    """Return the causes with the largest shares, the largest first; () if the logs look healthy, or like no others."""
    ranked = sorted(shares, key=lambda name: (-shares[name], name))
    if not ranked or ranked[0] == NO_FAILURE:
        return ()
    named = [name for name in ranked if name != NO_FAILURE and shares[name] >= GENERAL.get(name, POSSIBLE)]
    return tuple(named[:MOST]) if named and shares[named[0]] >= LIKELY else ()


def parse_classifier(text: str) -> WordClassifier:
    """Read the weights: a line `* CLASS:BIAS …`, then lines `WORD IDF INDEX:WEIGHT …`; weights are in tenths.

    Raises ValueError for a line of another form.
    """
    head, *lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    names = [each.rpartition(":") for each in head.split()[1:]]
    words = {}
    for line in lines:
        word, idf, *weights = line.split()
        pairs = (each.split(":") for each in weights)
        words[word] = (float(idf), tuple((int(at), int(weight) / 10) for at, weight in pairs))
    return WordClassifier(tuple(name for name, _, _ in names), tuple(int(bias) / 10 for _, _, bias in names), words)
