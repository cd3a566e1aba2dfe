"""A record of what hosts were found to be, sealed by its own hash. Pure.

A host's digest covers its facts alone, so that equal hosts have equal digests and an unchanged host keeps its own. The
digest of the whole covers everything else too: times, the hosts' names, the pylaunch that looked.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pylaunch.base.dataclass import dataclass, field

SCHEMA = 1


@dataclass(frozen=True)
class HostRecord:
    """Facts of one host."""

    facts: Mapping[str, Any]
    """Group → fact → value; what could not be read says so in its place."""

    own: Mapping[str, Any] = field(default_factory=dict)
    """Facts that no two hosts share: hostname, boot."""

    @property
    def digest(self) -> str:
        """Digest of the facts; equal hosts have equal digests."""
        return digest(self.facts)


@dataclass(frozen=True)
class Attestation:
    """Facts of all hosts at one time."""

    made_at: str
    """UTC, ISO 8601."""

    pylaunch: str
    """Version of pylaunch that made it."""

    hosts: Mapping[str, HostRecord]

    @property
    def body(self) -> dict[str, Any]:
        """The document without its seal."""
        return {
            "schema": SCHEMA,
            "made_at": self.made_at,
            "pylaunch": self.pylaunch,
            "hosts": {
                name: {"digest": host.digest, "facts": host.facts, "own": host.own} for name, host in self.hosts.items()
            },
        }

    @property
    def digest(self) -> str:
        """Digest of the whole document."""
        return digest(self.body)

    @property
    def text(self) -> str:
        """The sealed document."""
        return canonical({**self.body, "digest": self.digest}) + "\n"


def canonical(value: object) -> str:
    """`value` as JSON that is the same text whenever it is the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: object) -> str:
    """Return the SHA-256 of `value` in canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogateescape")).hexdigest()


def parse(text: str) -> Attestation:
    """Return the attestation in a sealed document. Raises ValueError if it is none or was changed."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"not an attestation of schema {SCHEMA}")
    try:
        hosts = {name: HostRecord(body["facts"], body["own"]) for name, body in document["hosts"].items()}
        attestation = Attestation(document["made_at"], document["pylaunch"], hosts)
        stated = {name: body["digest"] for name, body in document["hosts"].items()}
        sealed = document["digest"]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an attestation: {error}") from None
    changed = [name for name, host in hosts.items() if host.digest != stated[name]]
    if changed or attestation.digest != sealed:
        where = f"the record of {', '.join(changed)}" if changed else "it"
        raise ValueError(f"{where} was changed after it was sealed")
    return attestation
