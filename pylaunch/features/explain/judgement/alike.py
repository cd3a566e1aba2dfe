"""Possible causes, and doubts, by the words of logs (`classifier`). Pure.

1. Where no cause is known, the classes that the words suggest are possible ones; none is named.
2. A cause of medium confidence that hardly fits the words, where another one does, is one of several.
"""

from collections.abc import Sequence

from pylaunch.base.dataclass import replace
from pylaunch.features.explain.judgement.classifier import GENERAL, PLAIN, UNLIKELY, WordClassifier, likely
from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.features.explain.judgement.word_counts import word_counts
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.judgement import ABSTAINING, LogCause
from pylaunch.verdict.logs.scan import LogScan
from pylaunch.verdict.logs.signature import SignatureCatalogue


def with_alike(
    verdict: LogVerdict, scans: Sequence[LogScan], classifier: WordClassifier, catalogue: SignatureCatalogue
) -> LogVerdict:
    """Return the verdict with what the words of `scans` suggest; unchanged without a failure."""
    if not verdict.failed:
        return verdict
    first = verdict.first
    if verdict.first_error is not None or verdict.abstains:
        known = {each.cause.id for each in verdict.causes}
        causes = [each for each in likely(classifier.shares(word_counts(scans))) if each not in known]
        return replace(verdict, alike=tuple(catalogue.causes[each] for each in causes))
    is_doubtful = first is not None and first.is_sole and first.confidence is Confidence.MEDIUM
    if first is None or not is_doubtful or first.cause.id in ABSTAINING:
        return verdict  # What ended a process is a fact, whatever the words around it are.
    shares = classifier.shares(word_counts(scans))
    others = [each for each in likely(shares) if each not in GENERAL]
    if not others or shares[others[0]] < PLAIN or shares.get(first.cause.id, 1.0) >= UNLIKELY:
        return verdict
    return replace(verdict, causes=(_doubted(first, others, catalogue), *verdict.causes[1:]))


def _doubted(cause: LogCause, others: Sequence[str], catalogue: SignatureCatalogue) -> LogCause:
    because = "the words of the log are rather those of other causes"
    because = f"{cause.because}; but {because}" if cause.because else because
    return replace(cause, also=tuple(catalogue.causes[each] for each in others[:2]), because=because)
