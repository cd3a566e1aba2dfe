"""Local nodes, for machines that cannot have real ones: a node is a directory, its processes are this machine's."""

from pylaunch.features.lab.cluster import cluster_file, lab, locks, spec
from pylaunch.features.lab.cluster.images.tools import Report
from pylaunch.features.lab.cluster.lab import Request
from pylaunch.features.lab.cluster.spec import LabSpec


def up(request: Request, report: Report) -> LabSpec:
    """Create a lab of local nodes. Needs no privilege and changes nothing outside the lab's own directory."""
    lab.check(request)
    with locks.changing_lab(request.name):
        lab.clear_remains(request.name, report)
        decided = request.spec(None)
        with lab.removed_on_failure(request.name, report):
            with locks.changing("machine"):
                spec.save(decided)
            for name in decided.nodes:
                decided.paths.node(name).directory.mkdir(mode=0o700, parents=True)
            cluster_file.write_inventory(decided, cluster_file.local_inventory(decided))
            decided.paths.complete.touch()
    return decided
