"""Pick the connector of each host; diagnose and close the connections of a cluster."""

from concurrent.futures import ThreadPoolExecutor

from pylaunch.errors import ClusterNotReadyError, PylaunchError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.connector import LOGIN_TEST_TIMEOUT_S, Connector
from pylaunch.transport.local import LocalConnector
from pylaunch.transport.openssh import sharing
from pylaunch.transport.openssh.connector import OpenSshConnector
from pylaunch.transport.openssh.options import login as openssh_login
from pylaunch.transport.slurm.connector import SlurmConnector

DIAGNOSED_AT_ONCE = 32
VERSION_S = 10.0


def connector_of(host: Host, known_hosts: str | None) -> Connector:
    """Return the connector of `host`; `known_hosts` is the path of the project's known_hosts file.

    Raises ClusterNotReadyError for a host that no inventory describes.
    """
    match host.connection:
        case Connection.SSH:
            return OpenSshConnector(host, known_hosts)
        case Connection.LOCAL:
            return LocalConnector(host)
        case Connection.SLURM:
            return SlurmConnector(host)
        case Connection.NONE:
            raise ClusterNotReadyError(f"{host.name} is not in the inventory, so it is not connected to")


async def in_full(connector: Connector, ended: process.Completed) -> process.Completed:
    """Return a command line that failed as `ended` did and printed the reason that `ended` lacks, or `ended`."""
    failure = connector.failure(ended)
    if failure is None or not failure.again:
        return ended
    again = await (await process.spawn(failure.again)).leave(LOGIN_TEST_TIMEOUT_S)
    return ended if connector.failure(again) is None else again


def login(host: Host, known_hosts: str | None, words: Argv) -> Argv:
    """Return the command line for a person at a terminal: a login to `host`, or `words`, read by its shell."""
    return openssh_login(host, known_hosts, words)


def diagnose_connections(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Check each step to every host of `cluster`, several hosts at a time: host → one line per step."""
    connectors = [connector_of(host, cluster.known_hosts) for host in cluster.hosts]
    with ThreadPoolExecutor(DIAGNOSED_AT_ONCE) as pool:
        return dict(zip(cluster.names, pool.map(lambda connector: connector.diagnose(), connectors), strict=True))


def disconnect(cluster: Cluster) -> None:
    """Stop sharing the open connections to these hosts: the next commands log in again, running ones continue."""
    for host in cluster.hosts:
        connector_of(host, cluster.known_hosts).disconnect()


def client_version() -> str | None:
    """Return the version of this machine's OpenSSH client, as "OpenSSH_9.2p1"; None without an answer."""
    try:
        answer = process.run(("ssh", "-V"), timeout_s=VERSION_S)
    except PylaunchError:
        return None
    return answer.stderr.partition(",")[0].strip() or None


def close_all(address: str, user: str) -> None:
    """Close all shared connections to `user` on `address`, whichever credentials opened them."""
    sharing.close_all(address, user)
