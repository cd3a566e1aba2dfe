"""Rank the causes of an error that no signature explains, by the words of its log. Pure.

Multinomial logistic regression on tf-idf (1 + ln count, times the idf of the word, of length one; Manning, Raghavan and
Schütze, *Introduction to Information Retrieval*, 6.2), fitted by `benchmarks/train_classifier.py`. It says *what* went
wrong and never *who*: it names no rank, and nothing with high confidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from math import exp, log, sqrt

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.error_form import error_lines, error_weight
from pylaunch.verdict.logs.scan import EvidenceLine, KeptLine, LogScan, evidence_of

NO_FAILURE = "none"
"""Class of logs of healthy runs."""

ALONE = 0.7
"""Share from which a class is named alone: `benchmarks/train_classifier.py --measure` shows what others would cost."""

LIKELY = 0.05
"""Least share of the likeliest class, below which the log is like no others."""

POSSIBLE = 0.03
"""Least share of another one."""

MOST = 3
"""Classes that are named."""

MOST_LINES = 400
"""Lines that are read, of all logs together; lines that differ in numbers only are one."""

SHORTEST_WORD = 3
DECIDING_WORDS = 4
"""Words of a line that are shown as the reason for a class."""

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_INSIDE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]{2,30}|0")


@dataclass(frozen=True)
class Suggestion:
    """Class that the words of a log suggest."""

    cause: str
    share: float
    """Its share among the classes of texts with such words, 0 to 1."""

    evidence: EvidenceLine
    """Line with the words that weigh most."""

    words: tuple[str, ...]
    """Words of that line that weigh most."""


@dataclass(frozen=True)
class WordWeights:
    """Weights of words, as `parse_weights` reads them."""

    classes: tuple[str, ...]
    """Names of causes, and NO_FAILURE."""

    bias: tuple[float, ...]
    """One per class."""

    words: Mapping[str, tuple[float, tuple[tuple[int, float], ...]]]
    """Per word its idf, and its weights by the index of their class; those that are missing are 0."""

    def shares(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Return the share of each class among texts with the words of `counts`; the shares add up to 1."""
        values = self._values(counts)
        scores = list(self.bias)
        for word, value in values.items():
            for at, weight in self.words[word][1]:
                scores[at] += weight * value
        most = max(scores)
        odds = [exp(score - most) for score in scores]
        whole = sum(odds)
        return {name: part / whole for name, part in zip(self.classes, odds, strict=True)}

    def weighed(self, counts: Mapping[str, int], cause: str) -> dict[str, float]:
        """Return how much each word of `counts` adds to the score of a class."""
        index, values = self.classes.index(cause), self._values(counts)
        return {word: dict(self.words[word][1]).get(index, 0.0) * value for word, value in values.items()}

    def _values(self, counts: Mapping[str, int]) -> dict[str, float]:
        known = {word: (1 + log(count)) * self.words[word][0] for word, count in counts.items() if word in self.words}
        length = sqrt(sum(value * value for value in known.values())) or 1.0
        return {word: value / length for word, value in known.items()}


def parse_weights(text: str) -> WordWeights:
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
    return WordWeights(tuple(name for name, _, _ in names), tuple(int(bias) / 10 for _, _, bias in names), words)


@cache
def weights() -> WordWeights:
    """Return the weights that the package contains."""
    file = resources.files("pylaunch.features.explain") / "words.txt"
    return parse_weights(file.read_text(encoding="utf-8"))


class WordRanking:
    """Causes by the words of some logs."""

    def __init__(self, words: WordWeights, scans: Iterable[LogScan], rank: int | None = None) -> None:
        """With `rank`, the words of the others do not count: they are about a rank that was gone."""
        self._words, self._lines = words, _weighed_lines(scans, rank)
        self._counts = _counts(self._lines)
        self.shares = words.shares(self._counts)
        """Share of each class among texts with such words."""

    def suggested(self, without: Collection[str] = ()) -> tuple[Suggestion, ...]:
        """Return the likeliest causes of a failure but those of `without`; () if the logs are like no others."""
        return tuple(map(self._suggestion, likely(self.shares, without)))

    def _suggestion(self, cause: str) -> Suggestion:
        added = self._words.weighed(self._counts, cause)

        def own(text: str) -> dict[str, float]:
            return {word: added[word] for word in _words(text) if word in added}

        text = max(self._lines, key=lambda text: sum(own(text).values()))
        deciding = sorted(own(text).items(), key=lambda each: -each[1])[:DECIDING_WORDS]
        named = tuple(word for word, weight in deciding if weight > 0 and len(word) >= SHORTEST_WORD)
        return Suggestion(cause, self.shares[cause], evidence_of(self._lines[text][0]), named)


def likely(shares: Mapping[str, float], without: Collection[str] = ()) -> tuple[str, ...]:
    """Return the causes with the largest shares, the largest first."""
    ranked = sorted({*shares} - {NO_FAILURE, *without}, key=lambda name: (-shares[name], name))
    if not ranked or shares[ranked[0]] < LIKELY:
        return ()
    return tuple(name for name in ranked if shares[name] >= POSSIBLE)[:MOST]


def word_counts(scans: Iterable[LogScan]) -> Counter[str]:
    """Return how often each word is in the lines of errors, twice, and in the last lines."""
    return _counts(_weighed_lines(scans))


def _counts(lines: Mapping[str, tuple[KeptLine, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text, (_, times) in lines.items():
        for word in _words(text):
            counts[word] += times
    return counts


def _weighed_lines(scans: Iterable[LogScan], rank: int | None = None) -> dict[str, tuple[KeptLine, int]]:
    """Return the lines of `rank`, or of all, by their texts without numbers, and how often each counts."""
    lines: dict[str, tuple[KeptLine, int]] = {}
    for line in _lines(scans):
        if None not in (rank, line.origin.rank) and line.origin.rank != rank:
            continue
        text = _NUMBER.sub("0", line.text)
        if text not in lines:
            if len(lines) == MOST_LINES:
                break
            lines[text] = (line, 1 if error_weight(line.text) is None else 2)
    return lines


def _words(text: str) -> list[str]:
    """Return the words of a line: `HTTPServerError_2` is http, server, error, 0."""
    return _WORD.findall(_INSIDE.sub(" ", _NUMBER.sub("0", text)).lower())


def _lines(scans: Iterable[LogScan]) -> Iterator[KeptLine]:
    """Yield the lines with errors of all logs, then their last lines from the end."""
    scans = list(scans)
    for each in scans:
        yield from error_lines(each)
    for each in scans:
        yield from reversed(each.tail)
