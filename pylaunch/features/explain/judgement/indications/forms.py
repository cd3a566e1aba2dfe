"""All forms of texts that state facts, and the readers that find indications in them. Pure."""

from collections.abc import Callable, Iterable

from pylaunch.features.explain.judgement.comparison import (
    announcements,
    collectives,
    fingerprints,
    identities,
    rendezvous,
    reports,
    setups,
)
from pylaunch.features.explain.judgement.indications.form import Excerpts, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.features.explain.judgement.tables import (
    bandwidth,
    devices,
    disks,
    drivers,
    launch_contradictions,
    launch_lines,
    limits,
    links,
    pci,
)

FORMS: tuple[LogForm, ...] = (
    *identities.FORMS, *collectives.FORMS, *reports.FORMS, *setups.FORMS, *limits.FORMS, *disks.FORMS, *links.FORMS,
    *devices.FORMS, *bandwidth.FORMS, *launch_lines.FORMS, *rendezvous.FORMS, *drivers.FORMS, *pci.FORMS,
    *announcements.FORMS, *fingerprints.FORMS,
)  # fmt: skip

READERS: tuple[Callable[[Excerpts], Iterable[Indication]], ...] = (
    identities.read, announcements.read, collectives.read, fingerprints.read,
    rendezvous.read, reports.read, setups.read, launch_contradictions.read,
    disks.read, devices.read, links.read, bandwidth.read, limits.read, drivers.read, pci.read,
)  # fmt: skip
"""Comparisons of ranks before tables: a difference between ranks is a cause more often than a state of one machine."""
