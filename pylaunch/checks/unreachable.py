"""Hosts that cannot be asked, those with the same error together: 64 hosts behind one router are one finding."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.host_errors import OwnNames, of_hosts
from pylaunch.model.hostset import fold
from pylaunch.probe.ask import Unreachable


@dataclass(frozen=True)
class SharedFailure:
    """Hosts that fail at the same step with the same error."""

    hosts: tuple[str, ...]
    reason: str
    """For all hosts, their names and addresses folded."""

    hint: str
    evidence: tuple[tuple[str, str], ...]
    """Steps to the first host, each with the hosts that report the same: all of them, folded, or the first alone."""

    @property
    def own_lines(self) -> tuple[str, ...]:
        """The steps as lines below the hosts and the reason; one that is not the same for all hosts names its own."""
        return tuple(line if who == fold(self.hosts) else f"{who}: {line}" for who, line in self.evidence)

    @property
    def lines(self) -> tuple[str, ...]:
        """The reason and the steps as lines that begin with their hosts."""
        return tuple(f"{who}: {line}" for who, line in ((fold(self.hosts), self.reason), *self.evidence))


def shared_failures(cluster: Cluster, unreachable: Mapping[str, Unreachable]) -> list[SharedFailure]:
    """Return the failures of hosts of `cluster`, each once, in the order of first occurrence."""
    own = OwnNames(cluster.hosts)
    together: dict[object, list[str]] = {}
    for host, why in unreachable.items():
        steps = tuple(line.partition(":")[0] for line in why.evidence)
        together.setdefault((own.template(host, why.reason), steps), []).append(host)
    return [_shared(own, {host: unreachable[host] for host in hosts}) for hosts in together.values()]


def _shared(own: OwnNames, whys: Mapping[str, Unreachable]) -> SharedFailure:
    hosts = tuple(whys)
    first, why = next(iter(whys.items()))
    known = [{own.template(host, line) for line in each.evidence} for host, each in whys.items()]
    steps = []
    for line in why.evidence:
        template = own.template(first, line)
        is_shared = all(template in each for each in known)
        steps.append((fold(hosts), own.filled(template, hosts)) if is_shared else (first, line))
    hints = of_hosts({host: each.hint for host, each in whys.items()})
    return SharedFailure(hosts, own.filled(own.template(first, why.reason), hosts), "; ".join(hints), tuple(steps))
