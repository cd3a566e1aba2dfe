"""Lines that the scan of a log keeps beside those of the signatures, by topic: `LogScan.kept[name]`. Pure."""

from pylaunch.features.explain.judgement.error_form import shape_of
from pylaunch.features.explain.judgement.error_words import ANCHORS, WEAK_ANCHORS
from pylaunch.verdict.logs.scan import LineTopic, LogSearch
from pylaunch.verdict.logs.signature import SignatureCatalogue

ERRORS = "errors"
"""Name of the topic of lines that have the form of an error."""

LAST_ERRORS = "last errors"
"""Name of the topic of such lines at the end of a log, of which every word counts."""


TOPICS: tuple[LineTopic, ...] = (
    LineTopic(ERRORS, ANCHORS, shape_of),
    LineTopic(LAST_ERRORS, WEAK_ANCHORS, shape_of, at_end=True),
)


def search_of(catalogue: SignatureCatalogue) -> LogSearch:
    """Return the search for the signatures of `catalogue` and the lines of all topics."""
    return LogSearch.of(catalogue, TOPICS)
