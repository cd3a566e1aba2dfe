"""This machine as a host: commands run directly, as the current user, without a login."""

from __future__ import annotations

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport.connector import ConnectionFailure, LoginTest
from pylaunch.transport.process import Completed


@dataclass(frozen=True)
class LocalConnector:
    """The `Connector` of a host with `ansible_connection=local`: there is no connection that could fail."""

    host: Host

    @property
    def identity(self) -> str | None:
        """Return None."""
        return None

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return `words`."""
        return words

    def failure(self, ended: Completed) -> ConnectionFailure | None:
        """Return None."""
        return None

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Name the agent, the only party here that can be silent."""
        return ConnectionFailure(
            f"agent {self.host.address}: no answer within {within_s:.0f} s", f"check that {self.host.name} is up"
        )

    def login_test(self) -> LoginTest | None:
        """Return None."""
        return None

    def diagnose(self) -> tuple[str, ...]:
        """Return no steps."""
        return ()

    def disconnect(self) -> None:
        """Do nothing."""

    def ansible_variables(self) -> Mapping[str, str]:
        """Select Ansible's local connection."""
        return {"ansible_connection": "local"}
