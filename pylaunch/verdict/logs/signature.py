"""Signatures of failures: texts that programs print, the cause of each, and how to be sure. Pure: parses TOML texts.

Two kinds of text: `causes` has the classes of causes; every other one has the signatures of one page of the reference.
A text is data that is checked when it is parsed: an unknown key, role or class raises ValueError.
"""

import re
import tomllib
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from string import Formatter

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.cause import cause_identifier
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.causes.cause_kinds import KINDS

CAUSES = "causes"
"""Name of the text with the classes of causes."""


class Role(Enum):
    """Part that a text has in a failure."""

    ROOT = "root"
    """It may be the cause itself."""

    SYMPTOM = "symptom"
    """A rank prints it because of another rank or node; never the cause while a root is known."""

    WRAPPER = "wrapper"
    """A report of an end that has no cause in it."""

    WARNING = "warning"
    """Normal in passing; a cause only where a failure follows."""

    BENIGN = "benign"
    """Harmless noise."""

    CONTEXT = "context"
    """A fact that helps to read the others."""


@dataclass(frozen=True)
class CauseClass:
    """Class of causes: the unit of a verdict."""

    id: str
    page: str
    kind: str
    """Kind of the causes of runs to which it belongs, one of `cause_kinds.KINDS`."""

    title: str
    sure: str
    """Question that settles whether it is this cause."""

    check: str
    """Command that answers the question."""

    fix: tuple[str, ...]
    """Repairs, the most common first."""

    @property
    def identifier(self) -> str:
        """Kind and class as the end of a run and `explain` print them: "storage/storage-full"."""
        return cause_identifier(self.kind, self.id)


@dataclass(frozen=True)
class TextCase:
    """Other cause that words in a text show."""

    has: re.Pattern[str]
    """Words of the text, or of the lines that belong to it."""

    cause: CauseClass
    means: str
    confidence: Confidence
    also: tuple[CauseClass, ...]
    role: Role | None
    """Role where it is another one than the signature's."""


@dataclass(frozen=True)
class Signature:
    """Pattern of a text that programs print at a failure, with the usual cause of that text."""

    id: str
    page: str
    role: Role
    cause: CauseClass | None
    """Class where nothing else in the logs shows a better one; None for context and benign noise."""

    means: str
    anchors: tuple[str, ...]
    """Literals: the first line of each match contains one."""

    expression: str
    explains: tuple[str, ...] | None = None
    """For a warning: signatures that it can be the cause of; None for any; () for none but the end of a log."""

    yields_to: tuple[str, ...] = ()
    """Signatures of which this text is a consequence, wherever they are in the logs."""

    generic: bool = False
    """Another root in the same line is more specific."""

    spans: bool = False
    """The lines after the first belong to the text."""

    confidence: Confidence = Confidence.HIGH
    """Confidence in the cause where nothing but this text supports it."""

    also: tuple[CauseClass, ...] = ()
    """Other classes that print the same text: the text alone does not show which of them it is."""

    against: tuple[str, ...] = ()
    """Classes of causes that the fact of a context excludes: a text of theirs has another cause."""

    shows: tuple[str, ...] = ()
    """Forms of what the text is about, such as "{host} port {port}", with groups of the expression; the first counts
    whose groups are all in the text."""

    cases: tuple[TextCase, ...] = ()
    """Other causes by words of the text; the first whose words are there counts."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled expression."""
        return re.compile(self.expression, re.MULTILINE)


@dataclass(frozen=True)
class SignatureSource:
    """Origin of a signature, for the documentation."""

    example: str
    sources: tuple[str, ...]
    apart: str = ""
    """Look-alikes of the cause, and how to distinguish them."""


@dataclass(frozen=True)
class SignatureCatalogue:
    """All signatures and the classes of causes that they lead to."""

    causes: Mapping[str, CauseClass]
    signatures: Mapping[str, Signature]

    def of_page(self, page: str) -> list[Signature]:
        """Return the signatures of a page, in the order of its text."""
        return [each for each in self.signatures.values() if each.page == page]


_REQUIRED = {"role", "means", "anchors", "pattern"}
_OPTIONAL = {
    "against", "also", "cases", "cause", "confidence", "explains", "generic", "spans", "shows", "yields_to",
}  # fmt: skip
_OF_A_CAUSE = {"page", "kind", "title", "sure", "check", "fix"}


def parse_catalogue(texts: Mapping[str, str]) -> SignatureCatalogue:
    """Parse the TOML texts by name. Raises ValueError for content that is not as documented here."""
    tables = {name: tomllib.loads(text) for name, text in texts.items()}
    causes = {key: _cause(key, entry) for key, entry in tables.pop(CAUSES, {}).items()}
    signatures: dict[str, Signature] = {}
    for page, entries in sorted(tables.items()):
        for key, entry in entries.items():
            if key in signatures:
                raise ValueError(f"signature {key} is there twice")
            signatures[key] = _signature(key, page, entry, causes)
    for each in signatures.values():
        if strange := {field for form in each.shows for field in fields_of(form)} - set(each.pattern.groupindex):
            raise ValueError(f"signature {each.id} shows unknown groups: {', '.join(sorted(strange))}")
        if unknown := {*(each.explains or ()), *each.yields_to} - set(signatures):
            raise ValueError(f"signature {each.id} names unknown signatures: {', '.join(sorted(unknown))}")
    return SignatureCatalogue(causes, signatures)


def parse_sources(text: str) -> dict[str, SignatureSource]:
    """Parse where the texts of signatures are from, by id. Raises ValueError for content that is not as documented."""
    found = {}
    for key, entry in tomllib.loads(text).items():
        apart = _text(key, entry["apart"]) if "apart" in entry else ""
        found[key] = SignatureSource(_text(key, entry.get("example")), _texts(key, entry.get("sources")), apart)
    return found


def _cause(key: str, entry: Mapping[str, object]) -> CauseClass:
    if set(entry) != _OF_A_CAUSE:
        raise ValueError(f"cause {key}: keys are {', '.join(sorted(entry))}")
    text = {name: _text(key, entry[name]) for name in ("page", "kind", "title", "sure", "check")}
    if text["kind"] not in KINDS:
        raise ValueError(f"cause {key}: unknown kind {text['kind']}")
    return CauseClass(id=key, fix=_texts(key, entry["fix"]), **text)


def _signature(key: str, page: str, entry: Mapping[str, object], causes: Mapping[str, CauseClass]) -> Signature:
    if missing := _REQUIRED - set(entry):
        raise ValueError(f"signature {key} has no {', '.join(sorted(missing))}")
    if unknown := set(entry) - _REQUIRED - _OPTIONAL:
        raise ValueError(f"signature {key} has unknown keys: {', '.join(sorted(unknown))}")
    role = Role(entry["role"])
    name = entry.get("cause")
    if (name is None) != (role in (Role.CONTEXT, Role.BENIGN)):
        raise ValueError(f"signature {key}: role {role.value} with cause {name}")
    if name is not None and name not in causes:
        raise ValueError(f"signature {key}: unknown cause {name}")
    also, against = _texts(key, entry.get("also", [])), _texts(key, entry.get("against", []))
    if against and role is not Role.CONTEXT:
        raise ValueError(f"signature {key}: only a context is a fact against causes")
    if unknown := {*also, *against} - set(causes):
        raise ValueError(f"signature {key}: unknown causes {', '.join(sorted(unknown))}")
    return Signature(
        id=key,
        page=page,
        role=role,
        cause=None if name is None else causes[str(name)],
        means=_text(key, entry["means"]),
        anchors=_texts(key, entry["anchors"]),
        expression=_text(key, entry["pattern"]),
        explains=_texts(key, entry["explains"]) if "explains" in entry else None,
        yields_to=_texts(key, entry.get("yields_to", [])),
        generic=entry.get("generic") is True,
        spans=entry.get("spans") is True,
        confidence=Confidence(entry.get("confidence", (Confidence.MEDIUM if also else Confidence.HIGH).value)),
        also=tuple(causes[each] for each in also),
        against=against,
        shows=_texts(key, entry.get("shows", [])),
        cases=tuple(_case(key, each, causes) for each in _tables(key, entry.get("cases", []))),
    )


def _case(key: str, entry: Mapping[str, object], causes: Mapping[str, CauseClass]) -> TextCase:
    if unknown := set(entry) - {"has", "cause", "means", "confidence", "also", "role"}:
        raise ValueError(f"signature {key} has a case with unknown keys: {', '.join(sorted(unknown))}")
    also, cause = _texts(key, entry.get("also", [])), _text(key, entry.get("cause"))
    if unknown := {cause, *also} - set(causes):
        raise ValueError(f"signature {key}: unknown causes {', '.join(sorted(unknown))}")
    return TextCase(
        has=re.compile(_text(key, entry.get("has"))),
        cause=causes[cause],
        means=_text(key, entry.get("means")),
        confidence=Confidence(entry.get("confidence", Confidence.MEDIUM.value)),
        also=tuple(causes[each] for each in also),
        role=Role(entry["role"]) if "role" in entry else None,
    )


def fields_of(form: str) -> list[str]:
    """Return the names in braces of a form."""
    return [name for _, name, _, _ in Formatter().parse(form) if name is not None]


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key}: {value!r} is not a text")
    return value


def _tables(key: str, value: object) -> tuple[Mapping[str, object], ...]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"{key}: {value!r} is not a list of tables")
    return tuple(value)


def _texts(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{key}: {value!r} is not a list")
    return tuple(_text(key, each) for each in value)
