"""Indications in the logs: texts of known forms, as the scan kept them, read by all readers. Pure."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from pylaunch.features.explain.judgement.comparison import announcements, collectives
from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.verdict.logs.scan import LogScan

FORMS: tuple[LogForm, ...] = (*collectives.FORMS, *announcements.FORMS)
READERS: tuple[Callable[[Excerpts], Iterable[Indication]], ...] = (announcements.read, collectives.read)


def indications_in(scans: Sequence[LogScan]) -> list[Indication]:
    """Return the indications of all readers, each once."""
    excerpts = {form.id: [each for scan in scans for each in _excerpts(scan, form)] for form in FORMS}
    found: dict[tuple[str, str], Indication] = {}
    for each in itertools.chain.from_iterable(reader(excerpts) for reader in READERS):
        found.setdefault((each.cause, each.text), each)
    return list(found.values())


def _excerpts(scan: LogScan, form: LogForm) -> Iterator[LogExcerpt]:
    for kept in scan.kept.get(form.id, ()):
        if matched := form.pattern.search(kept.text):
            groups = {group: value for group, value in matched.groupdict().items() if value is not None}
            yield LogExcerpt(kept.origin, kept.time, kept.file, kept.line, (kept.text, *kept.following), groups)
