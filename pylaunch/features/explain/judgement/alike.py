"""Possible causes by the words of logs (`classifier`), where no cause is known. Pure."""

from collections.abc import Sequence

from pylaunch.base.dataclass import replace
from pylaunch.features.explain.judgement.classifier import WordClassifier, likely
from pylaunch.features.explain.judgement.verdict import LogVerdict
from pylaunch.features.explain.judgement.word_counts import word_counts
from pylaunch.verdict.logs.scan import LogScan
from pylaunch.verdict.logs.signature import SignatureCatalogue


def with_alike(
    verdict: LogVerdict, scans: Sequence[LogScan], classifier: WordClassifier, catalogue: SignatureCatalogue
) -> LogVerdict:
    """Return the verdict with what the words of `scans` suggest; unchanged without a failure or with a cause."""
    if not verdict.failed or (verdict.first_error is None and not verdict.abstains):
        return verdict
    known = {each.cause.id for each in verdict.causes}
    causes = [each for each in likely(classifier.shares(word_counts(scans))) if each not in known]
    return replace(verdict, alike=tuple(catalogue.causes[each] for each in causes))
