"""Provisioning: compare every host with its manifest, run the roles that differ where they do, compare again.

survey ───► ProvisionSurvey  the differences by host; printed by --plan; without any, Ansible does not run
converge ─► Convergence      the playbook, for the hosts and roles that differ, and the state of these hosts afterwards
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.errors import UsageError
from pylaunch.features.provision.environments.environment import MANIFEST, previous_environment
from pylaunch.features.provision.inputs import Wanted, wanted_of
from pylaunch.features.provision.manifest import (
    Answer,
    Change,
    HostState,
    Note,
    ask_manifests,
    changes_of,
    notes_of,
)
from pylaunch.inventory.load import listing_of
from pylaunch.model.cluster import Cluster
from pylaunch.probe.ask import NoPython, Unreachable
from pylaunch.store import content
from pylaunch.store.files import project_directory, project_environment
from pylaunch.transport.connections import disconnect
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, Progress, run_playbook

PYTHON_ENV = "python_env"
ALL_AT_ONCE = "100%"


@dataclass(frozen=True)
class ProvisionOptions:
    """Roles to bring to their desired state, and how."""

    roles: tuple[str, ...] = ()
    """Only these; empty is all."""

    environment: Path | None = None
    """Python environment to install; None is the one next to the inventory."""

    rollback: bool = False
    """Install the environment that was locked before this one; only the role python_env."""

    deep: bool = False
    """Read every file of the Python environments."""

    batch_sizes: str = ALL_AT_ONCE
    """Sizes of the batches of hosts that change together: "1,10%,100%"."""

    become_password: str | None = field(default=None, repr=False)
    """None is sudo without a password."""

    with_diff: bool = False
    """Report the lines of files that change."""


@dataclass(frozen=True)
class ProvisionRequest:
    """Hosts to bring into the desired state, and how."""

    cluster: Cluster
    options: ProvisionOptions
    environment: Path
    """Directory of the locked Python environment."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Run only these roles; empty runs all roles of the playbook."""
        return (PYTHON_ENV,) if self.options.rollback else self.options.roles

    @property
    def extra_vars(self) -> dict[str, object]:
        """Variables for Ansible that are not in the inventory."""
        found: dict[str, object] = {"pylaunch_project_directory": str(project_directory(Path(self.cluster.sources[0])))}
        if self.cluster.env_name is not None:
            found["pylaunch_environment_name"] = self.cluster.env_name
        if self.options.environment is not None or self.options.rollback:
            found["python_env_source"] = str(self.environment)
        return found


@dataclass(frozen=True)
class ProvisionSurvey:
    """Hosts, compared with their manifests and with what they are to be given."""

    wanted: Wanted
    answers: Mapping[str, Answer]
    changes: Mapping[str, tuple[Change, ...]]
    """Differences, by host; hosts out of reach have no entry."""

    def only(self, hosts: Collection[str]) -> "ProvisionSurvey":
        """Return the survey without hosts outside of `hosts`."""
        answers = {host: answer for host, answer in self.answers.items() if host in hosts}
        changes = {host: changes for host, changes in self.changes.items() if host in hosts}
        return replace(self, answers=answers, changes=changes)

    @property
    def notes(self) -> dict[str, tuple[Note, ...]]:
        """Settings that a host cannot have, by host that answered."""
        return {host: notes_of(self.wanted.hosts[host], state) for host, state in self.states.items()}

    @property
    def states(self) -> dict[str, HostState]:
        """States of the hosts that answered."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, HostState)}

    @property
    def unreachable(self) -> dict[str, Unreachable]:
        """Hosts that could not be reached, with the reason."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, Unreachable)}

    @property
    def to_change(self) -> tuple[str, ...]:
        """Hosts on which Ansible must run."""
        return tuple(host for host in self.answers if self.changes.get(host))

    @property
    def roles_to_run(self) -> tuple[str, ...]:
        """Roles that differ on any host, in playbook order; all roles if a host has no interpreter yet."""
        drifted = {change.role for changes in self.changes.values() for change in changes}
        return tuple(role for role in self.wanted.roles if role in drifted or "" in drifted)


@dataclass(frozen=True)
class Convergence:
    """Result of the playbook, and the state of the hosts afterwards."""

    result: PlaybookResult
    after: ProvisionSurvey
    """Second survey of the hosts on which the playbook succeeded."""

    untouched: tuple[str, ...] = ()
    """Hosts that were skipped because an earlier batch failed."""

    @property
    def is_good(self) -> bool:
        """Every changed host is in its desired state."""
        return self.result.ok and not self.after.unreachable and not any(self.after.changes.values())


@dataclass(frozen=True)
class BatchStarted:
    """Ansible starts on the next hosts."""

    hosts: tuple[str, ...]
    roles: tuple[str, ...]


ProvisionEvent = BatchStarted | Progress


def batches(hosts: Sequence[str], serial: str) -> tuple[tuple[str, ...], ...]:
    """Cut `hosts` into the batches of `serial` ("1,10%,100%"): percentages are of all hosts, the last size repeats.

    Raises UsageError for a size that is neither a number nor a percentage above zero.
    """
    sizes = [_size(word.strip(), len(hosts)) for word in serial.split(",")]
    cut: list[tuple[str, ...]] = []
    begin = 0
    while begin < len(hosts):
        end = begin + sizes[min(len(cut), len(sizes) - 1)]
        cut.append(tuple(hosts[begin:end]))
        begin = end
    return tuple(cut)


def _size(word: str, total: int) -> int:
    number = word.removesuffix("%")
    if not number.isdecimal() or int(number) == 0:
        raise UsageError(
            f"--serial {word}: expected a number of hosts or a percentage", hint="for example: --serial 1,10%,100%"
        )
    return max(1, total * int(number) // 100) if word.endswith("%") else int(number)


def request_of(cluster: Cluster, options: ProvisionOptions) -> ProvisionRequest:
    """Return the request for `cluster`. Raises UsageError for one without an inventory."""
    if not cluster.sources:
        raise UsageError(
            "provision changes machines and needs an inventory that names them",
            hint="pylaunch provision -i cluster.ini; for this machine, the line: localhost ansible_connection=local",
        )
    own = options.environment or project_environment(Path(cluster.sources[0]), cluster.env_name)
    environment = previous_environment(own.absolute()) if options.rollback else own.absolute()
    return ProvisionRequest(cluster, options, environment)


def survey(request: ProvisionRequest) -> ProvisionSurvey:
    """Compare every host with its manifest, and its manifest with the inputs of today. Changes nothing."""
    cluster = request.cluster
    wanted = wanted_of(
        content.content_directory(),
        listing_of(Path(cluster.sources[0])),
        cluster.names,
        only=request.roles,
        given={
            "pylaunch_environment_name": cluster.env_name or "",
            "python_env_source": _digest(request.environment / MANIFEST),
            "ssh_access_known_hosts_source": _digest(Path(cluster.known_hosts or "")),
        },
    )
    return _compared(request, wanted)


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def run_site(
    request: ProvisionRequest,
    found: ProvisionSurvey,
    *,
    check: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> PlaybookResult:
    """Run the roles that differ on the hosts of `request`; with `check`, only report what they would change."""
    roles = found.roles_to_run
    run = PlaybookRun(
        playbook=content.playbook("site"),
        cluster=request.cluster,
        tags=roles,
        skip_tags=tuple(sorted({each.name for each in content.roles_directory().iterdir()} - set(roles))),
        extra_vars={
            **request.extra_vars,
            "pylaunch_inputs": found.wanted.hosts,
            "python_env_altered_hosts": [host for host, state in found.states.items() if state.altered],
        },
        check=check,
        diff=check or request.options.with_diff,
        become_password=request.options.become_password,
    )
    return run_playbook(run, on_event=on_progress)


def converge(
    request: ProvisionRequest,
    found: ProvisionSurvey,
    cut: Sequence[Sequence[str]],
    *,
    emit: Callable[[ProvisionEvent], None],
) -> Convergence:
    """Run the roles that differ on batch after batch, and survey its hosts again; stop after the first that fails.

    Raises ProvisionError when Ansible itself failed; failed tasks are part of the result.
    """
    results: list[PlaybookResult] = []
    after = found.only(())
    for number, batch in enumerate(cut, start=1):
        part = found.only(batch)
        emit(BatchStarted(tuple(batch), part.roles_to_run))
        of_batch = replace(request, cluster=request.cluster.only(batch))
        results.append(run_site(of_batch, part, on_progress=emit))
        failed = {failure.host for failure in results[-1].failures}
        finished = of_batch.cluster.only(set(batch) - failed)
        # Limits apply from the next login: shared connections would keep the old ones.
        disconnect(finished)
        again = _compared(replace(request, cluster=finished), found.wanted)
        after = replace(after, answers={**after.answers, **again.answers}, changes={**after.changes, **again.changes})
        done = Convergence(PlaybookResult.joined(results), after, tuple(chain.from_iterable(cut[number:])))
        if not done.is_good:
            return done
    return replace(done, untouched=())


def _compared(request: ProvisionRequest, wanted: Wanted) -> ProvisionSurvey:
    is_deep = request.options.deep and PYTHON_ENV in wanted.roles and request.environment.is_dir()
    unprivileged = [name for name in request.cluster.names if wanted.is_unprivileged(name)]
    answers = ask_manifests(request.cluster, unprivileged, sudo_password=request.options.become_password, deep=is_deep)
    changes = {
        host: _changes(wanted.hosts[host], answer)
        for host, answer in answers.items()
        if not isinstance(answer, Unreachable)
    }
    return ProvisionSurvey(wanted, answers, changes)


def _changes(wanted: Mapping[str, str], state: HostState | NoPython) -> tuple[Change, ...]:
    if isinstance(state, NoPython):
        return (Change("", "python", f"no interpreter at {state.path}"),)
    edited = (Change(PYTHON_ENV, path, f"{how} ({distribution})") for distribution, path, how in state.altered)
    return (*changes_of(wanted, state), *edited)
