"""Compare facts that ranks of one run must share: environment, libraries, driver, kernel, image. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pylaunch.base.dataclass import replace
from pylaunch.checks.finding_lines import all_lines
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Agreement, Cluster
from pylaunch.model.diagnosis.finding import ATTESTATION, Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.hostset import fold
from pylaunch.protocol.node_task import CONTAINER_IMAGE, GPU_MODELS

_ENVIRONMENT = "pylaunch provision --roles python_env --limit {hosts}"
_FIXES = {
    "environment digest": _ENVIRONMENT,
    "torch": _ENVIRONMENT,
    "nccl": _ENVIRONMENT,
    "gpu driver": "install the same driver on {hosts} and reboot",
    "kernel series": "boot {hosts} into the kernel of the others",
    GPU_MODELS: "all ranks wait for the slowest GPU; equal ones only: --limit",
    CONTAINER_IMAGE: "bring one image to all of them: pylaunch push IMAGE PATH, and podman load for a name",
}
_DRIFT = "what else differs: pylaunch check --deep"


def compare_nodes(
    cluster: Cluster, essentials: Mapping[str, Mapping[str, str]], *, judged_elsewhere: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return the differences between the `essentials` of nodes (host → name → value).

    Names of `judged_elsewhere` are left out, because a check reports them. Hosts with the policy `off` are not
    compared. Raises ClusterNotReadyError for differences when a compared host has the policy `refuse`, and for images
    that differ under any policy: ranks in them would be different programs. Different GPUs only warn under any policy.
    """
    if images := _differences(essentials, [CONTAINER_IMAGE], Severity.FAIL):
        raise _refused("the image of their ranks", images)
    compared = {host: facts for host, facts in essentials.items() if cluster[host].attestation is not Agreement.OFF}
    refuses = any(cluster[host].attestation is Agreement.REFUSE for host in compared)
    left_out = () if refuses else judged_elsewhere
    with_gpus = {host: facts for host, facts in compared.items() if GPU_MODELS in facts}
    models = _differences(with_gpus, [GPU_MODELS], Severity.WARN)
    names = dict.fromkeys(name for facts in compared.values() for name in facts if name not in (*left_out, GPU_MODELS))
    found = _differences(compared, names, Severity.FAIL if refuses else Severity.WARN)
    if found and refuses:
        start_anyway = "to start all the same: pylaunch_attestation=warn in the inventory"
        raise _refused("what their ranks must share", found, start_anyway)
    return (*found, *models)


def _differences(
    essentials: Mapping[str, Mapping[str, str]], names: Iterable[str], severity: Severity
) -> tuple[Finding, ...]:
    found = [
        each
        for name in names
        for each in odd_ones(
            Rule(ATTESTATION, severity, name, _FIXES.get(name, _DRIFT)),
            {host: facts.get(name, "") for host, facts in essentials.items()},
        )
    ]
    return tuple(replace(each, fix=each.fix.replace("{hosts}", fold(each.hosts))) for each in found)


def _refused(subject: str, found: Sequence[Finding], hint: str | None = None) -> ClusterNotReadyError:
    message = f"hosts differ in {subject}, so no rank was started"
    return ClusterNotReadyError(message, evidence=all_lines(found), hint=hint)
