"""Compare facts that ranks of one run must share: environment, libraries, driver, kernel. Pure."""

from collections.abc import Collection, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Agreement, Cluster
from pylaunch.model.diagnosis.majority import Majority, majority, shown
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_task import CONTAINER_IMAGE

_HINTS = {
    "environment digest": "pylaunch provision --roles python_env --limit {hosts}",
    "torch": "pylaunch provision --roles python_env --limit {hosts}",
    "nccl": "pylaunch provision --roles python_env --limit {hosts}",
    "gpu driver": "install the same driver on {hosts} and reboot; what else differs there: pylaunch drift",
    "kernel series": "boot {hosts} into the kernel of the others; what else differs there: pylaunch drift",
}
_DRIFT = "everything that differs: pylaunch drift"


@dataclass(frozen=True)
class NodeDifference:
    """A fact that ranks share and in which nodes differ."""

    text: str
    """Values with their hosts: "nccl: 2.26.2 on n2; 2.27.3 on n[1,3]"."""

    hint: str


def judge(
    cluster: Cluster, essentials: Mapping[str, Mapping[str, str]], *, judged_elsewhere: Collection[str] = ()
) -> tuple[NodeDifference, ...]:
    """Return the differences between the `essentials` of nodes (host → name → value).

    Names of `judged_elsewhere` are left out, because a check reports them. Hosts with the policy `off` are not
    compared. Raises ClusterNotReadyError for differences when a compared host has the policy `refuse`, and for images
    that differ.
    """
    _refuse_other_images(essentials)
    policies = {host: cluster[host].attestation for host in essentials}
    compared = {host: facts for host, facts in essentials.items() if policies[host] is not Agreement.OFF}
    refuses = any(policies[host] is Agreement.REFUSE for host in compared)
    left_out = () if refuses else judged_elsewhere
    found: list[NodeDifference] = []
    for name in dict.fromkeys(name for facts in compared.values() for name in facts if name not in left_out):
        division = majority({host: facts.get(name, "") for host, facts in compared.items()})
        if division.odd:
            odd = fold(host for _, hosts in division.odd for host in hosts)
            hint = _HINTS.get(name, _DRIFT).format(hosts=odd)
            found.append(NodeDifference(f"{name}: {'; '.join(_values(division))}", hint))
    if found and refuses:
        hints = dict.fromkeys(each.hint for each in found)
        raise ClusterNotReadyError(
            "hosts differ in what their ranks must share, so no rank was started",
            evidence=[each.text for each in found],
            hint="\n      ".join([*hints, "to start all the same: pylaunch_attestation=warn in the inventory"]),
        )
    return tuple(found)


def _values(division: Majority[str]) -> list[str]:
    """Return each value with its hosts, the usual one last."""
    usual = [(division.usual, division.usual_hosts)] if division.usual_hosts else []
    return [f"{shown(value)} on {fold(hosts)}" for value, hosts in (*division.odd, *usual)]


def _refuse_other_images(essentials: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse images that differ, whatever the policy: ranks in them would be different programs."""
    division = majority({host: facts.get(CONTAINER_IMAGE, "") for host, facts in essentials.items()})
    if division.odd:
        raise ClusterNotReadyError(
            "hosts differ in the image of their ranks, so no rank was started",
            evidence=_values(division),
            hint="send one image to all of them: pylaunch push IMAGE PATH",
        )
