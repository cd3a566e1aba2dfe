"""Network configuration of this host that the role nccl_env manages."""

from __future__ import annotations

from typing import Any

from pylaunch.agent.probe.registry import reader_of_each
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.protocol.readings.roles import CommunicationReading


@reader_of_each("nccl_env.communication", 20.0)
def communication(question: dict[str, Any]) -> CommunicationReading:
    """Return the profile, interface and files that this host should have; `interfaces.fact` explains `question`."""
    found = interfaces.fact(question)
    return {"profile": found["profile"], "interface": found["interface"], "files": found["files"]}
