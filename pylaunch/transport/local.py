"""This machine as a host: commands run directly, as the current user, without a login."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.text.argv import Argv
from pylaunch.transport.connector import ConnectionFailure, Connector


@dataclass(frozen=True)
class LocalConnector(Connector):
    """The `Connector` of a host with `ansible_connection=local`: there is no connection that could fail."""

    def argv(self, words: Argv, *, shared: bool = True) -> Argv:
        """Return `words`."""
        return words

    def timed_out(self, within_s: float) -> ConnectionFailure:
        """Name the agent, the only party here that can be silent."""
        return ConnectionFailure(
            f"agent {self.host.address}: no answer within {within_s:.0f} s", f"check that {self.host.name} is up"
        )

    def ansible_variables(self) -> Mapping[str, str]:
        """Select Ansible's local connection."""
        return {"ansible_connection": "local"}
