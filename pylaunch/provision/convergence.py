"""Provisioning: render the desired state of every host, read its actual state, change the differences, read again.

survey ───► ProvisionSurvey  the differences by host; printed by --plan; without any, Ansible does not run
converge ─► Convergence      the playbook, for the hosts and roles that differ, and the state of these hosts afterwards
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.cluster import Cluster, Connection
from pylaunch.probe.ask import NoPython, Unreachable
from pylaunch.provision.desired import Content, Desired, render
from pylaunch.provision.errors import refuse_unknown
from pylaunch.provision.observed.drift import Change, Note, changes_of, notes, package_subject
from pylaunch.provision.observed.facts import Facts
from pylaunch.provision.observed.probe import Answer, probe_hosts
from pylaunch.provision.state import PACKAGE_LOCK, RoleState, questions
from pylaunch.store import content
from pylaunch.store.paths import project_directory
from pylaunch.transport.connections import disconnect
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, Progress, run_playbook


@dataclass(frozen=True)
class ProvisionRequest:
    """Hosts and roles to bring into the desired state."""

    cluster: Cluster
    content: Content
    roles: tuple[str, ...] = ()
    """Run only these roles; empty runs all roles of the playbook."""

    extra_vars: Mapping[str, object] = field(default_factory=dict)
    become_password: str | None = field(default=None, repr=False)
    deep: bool = False
    """Compare every file of the Python environments."""


@dataclass(frozen=True)
class ProvisionSurvey:
    """Actual state of the hosts, compared with the desired state."""

    desired: Desired
    answers: Mapping[str, Answer]
    changes: Mapping[str, tuple[Change, ...]]
    """Differences, by host; hosts whose facts are missing have no entry."""

    notes: Mapping[str, tuple[Note, ...]]
    """Settings that a host cannot have, by host; hosts whose facts are missing have no entry."""

    def with_(self, other: "ProvisionSurvey") -> "ProvisionSurvey":
        """Return both surveys as one; for hosts in both, `other` wins."""
        return ProvisionSurvey(
            replace(self.desired, hosts={**self.desired.hosts, **other.desired.hosts}),
            {**self.answers, **other.answers},
            {**self.changes, **other.changes},
            {**self.notes, **other.notes},
        )

    def only(self, hosts: Collection[str]) -> "ProvisionSurvey":
        """Return the survey without hosts outside of `hosts`."""
        return ProvisionSurvey(
            self.desired,
            {host: answer for host, answer in self.answers.items() if host in hosts},
            {host: changes for host, changes in self.changes.items() if host in hosts},
            {host: each for host, each in self.notes.items() if host in hosts},
        )

    @property
    def facts(self) -> dict[str, Facts]:
        """Facts of the hosts that answered."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, Facts)}

    @property
    def unreachable(self) -> dict[str, Unreachable]:
        """Hosts that could not be reached, with the reason."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, Unreachable)}

    @property
    def without_python(self) -> dict[str, NoPython]:
        """Hosts that lack the agent's interpreter."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, NoPython)}

    @property
    def to_change(self) -> tuple[str, ...]:
        """Hosts on which Ansible must run."""
        return tuple(host for host in self.answers if self.changes.get(host) or host in self.without_python)

    @property
    def waiting_for_packages(self) -> dict[str, str]:
        """Hosts that must install packages while another process holds the package lock: host → holder."""
        found = {}
        for host in self.to_change:
            facts = self.facts.get(host)
            wanted = {package_subject(name) for state in self.desired.hosts.get(host, ()) for name in state.packages}
            installs = any(change.subject in wanted for change in self.changes.get(host, ()))
            if facts is not None and installs and PACKAGE_LOCK in facts.locks:
                holder = facts.locks[PACKAGE_LOCK]
                if isinstance(holder, str):
                    found[host] = holder
        return found

    @property
    def roles_to_run(self) -> tuple[str, ...]:
        """Roles that differ on any host, in playbook order; all roles if a host has no interpreter yet."""
        drifted = {change.role for changes in self.changes.values() for change in changes}
        return tuple(role for role in self.desired.roles if role in drifted or self.without_python)


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
        is_proven = not self.after.unreachable and not self.after.without_python
        return self.result.ok and is_proven and not any(self.after.changes.values())


def site_request(cluster: Cluster, roles: tuple[str, ...] = (), *, deep: bool = False) -> ProvisionRequest:
    """Return the request of `pylaunch provision`: the site playbook, and the environment next to the inventory."""
    named = {} if cluster.env_name is None else {"pylaunch_environment_name": cluster.env_name}
    return ProvisionRequest(
        cluster,
        Content(content.playbook("site"), content.roles_directory()),
        roles=roles,
        extra_vars={"pylaunch_project_directory": str(project_directory(Path(cluster.sources[0]))), **named},
        deep=deep,
    )


def survey(request: ProvisionRequest, *, host_facts: bool = False) -> ProvisionSurvey:
    """Compare the state of every host with the desired state. Changes nothing.

    With `host_facts`, hosts also report facts that no role manages. Raises ProvisionError for hosts whose distribution
    the roles do not support.
    """
    found = _judged(request, _desired(request), host_facts=host_facts)
    refuse_unknown(found.desired.hosts, {host: facts.distribution for host, facts in found.facts.items()})
    return found


def _desired(request: ProvisionRequest) -> Desired:
    desired = render(request.content, request.cluster, only=request.roles, extra_vars=request.extra_vars)
    return _without_own_limits(request.cluster, desired)


def converge(
    request: ProvisionRequest, found: ProvisionSurvey, *, on_progress: Callable[[Progress], None] | None = None
) -> Convergence:
    """Run the playbook for the hosts and roles that differ in `found`, and survey these hosts again.

    Raises ProvisionError when Ansible itself failed; failed tasks are part of the result.
    """
    cluster = request.cluster.only(found.to_change)
    roles = found.roles_to_run
    run = PlaybookRun(
        playbook=request.content.playbook,
        cluster=cluster,
        tags=roles,
        skip_tags=tuple(sorted({each.name for each in request.content.roles.iterdir()} - set(roles))),
        extra_vars={**request.extra_vars, **_altered_environments(found)},
        become_password=request.become_password,
    )
    result = run_playbook(run, on_event=on_progress)
    failed = {failure.host for failure in result.failures}
    finished = request.cluster.only(set(cluster.names) - failed)
    # Limits apply from the next login: shared connections would keep the old ones.
    disconnect(finished)
    again = replace(request, cluster=finished)
    # The distribution of a host without an interpreter was unknown before.
    return Convergence(result, survey(again) if found.without_python else _judged(again, found.desired))


def converge_in_batches(
    request: ProvisionRequest,
    found: ProvisionSurvey,
    batches: Sequence[Sequence[str]],
    *,
    on_batch: Callable[[ProvisionSurvey], None],
    on_progress: Callable[[Progress], None] | None = None,
) -> Convergence:
    """Converge the hosts to change batch after batch; stop after the first batch that fails."""
    done: Convergence | None = None
    for number, batch in enumerate(batches, start=1):
        part = found.only(batch)
        on_batch(part)
        ended = converge(replace(request, cluster=request.cluster.only(batch)), part, on_progress=on_progress)
        done = ended if done is None else _together(done, ended)
        if not ended.is_good:
            return replace(done, untouched=tuple(host for later in batches[number:] for host in later))
    assert done is not None, "there are hosts to change"
    return done


def _together(first: Convergence, second: Convergence) -> Convergence:
    result = PlaybookResult(
        {**first.result.tallies, **second.result.tallies},
        (*first.result.failures, *second.result.failures),
        {**first.result.returned, **second.result.returned},
    )
    return Convergence(result, first.after.with_(second.after))


def _altered_environments(found: ProvisionSurvey) -> dict[str, object]:
    """Return the variable that makes the role reinstall environments whose files were altered."""
    altered = [
        host
        for host, facts in found.facts.items()
        if any(facts.altered[each.path] for state in found.desired.hosts[host] for each in state.environments
               if each.path in facts.altered)
    ]  # fmt: skip
    return {"python_env_altered_hosts": altered} if altered else {}


def _judged(
    request: ProvisionRequest,
    desired: Desired,
    *,
    host_facts: bool = False,
) -> ProvisionSurvey:
    asked = {host: questions(desired.hosts[host], deep=request.deep) for host in request.cluster.names}
    if host_facts:
        for host in request.cluster.hosts:
            asked[host.name]["host_facts"] = [host.rank_python]
    answers = probe_hosts(request.cluster, asked, sudo_password=request.become_password)
    facts = {host: answer for host, answer in answers.items() if isinstance(answer, Facts)}
    return ProvisionSurvey(
        desired,
        answers,
        {host: changes_of(desired.hosts[host], fact) for host, fact in facts.items()},
        {host: notes(desired.hosts[host], fact) for host, fact in facts.items()},
    )


def _without_own_limits(cluster: Cluster, desired: Desired) -> Desired:
    """Return `desired` without limits on this machine: there is no login, so our process keeps the limits it has."""
    local = {host.name for host in cluster.hosts if host.connection is Connection.LOCAL}

    def without(states: Sequence[RoleState]) -> tuple[RoleState, ...]:
        return tuple(replace(state, limits={}) for state in states)

    hosts = {host: without(states) if host in local else states for host, states in desired.hosts.items()}
    return replace(desired, hosts=hosts)
