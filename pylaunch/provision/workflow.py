"""Provisioning: render what every host should be, ask every host what it is, change what differs, ask again.

survey ──► Survey        what differs on which host; printed by --plan; empty means that Ansible does not run at all
converge ─► Convergence  the playbook, on the hosts and with the roles that differ, and what was found afterwards
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pylaunch.model.cluster import Cluster, Connection
from pylaunch.probe.ask import NoPython, Unreachable
from pylaunch.provision.desired import USUAL_FAMILY, Content, Desired, render
from pylaunch.provision.drift import Change, Note, drift, notes, package_subject
from pylaunch.provision.errors import refuse_unknown
from pylaunch.provision.facts import Facts
from pylaunch.provision.probe import Answer, probe
from pylaunch.provision.state import PACKAGE_LOCK, RoleState, questions
from pylaunch.store import content
from pylaunch.store.paths import project_directory
from pylaunch.transport.connections import disconnect
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, Progress, run_playbook


@dataclass(frozen=True)
class ProvisionRequest:
    """What to bring into its desired state."""

    cluster: Cluster
    content: Content
    roles: tuple[str, ...] = ()
    """Only these; empty is all of the playbook."""

    extra_vars: Mapping[str, object] = field(default_factory=dict)
    become_password: str | None = field(default=None, repr=False)
    deep: bool = False
    """Look at every file of the Python environments."""


@dataclass(frozen=True)
class ProvisionSurvey:
    """What was found on the hosts, against what they should be."""

    desired: Desired
    answers: Mapping[str, Answer]
    changes: Mapping[str, tuple[Change, ...]]
    """What differs, per host that could be judged."""

    notes: Mapping[str, tuple[Note, ...]]
    """What cannot be had, per host that could be judged."""

    def with_(self, other: ProvisionSurvey) -> ProvisionSurvey:
        """What was found, with what `other` says of its hosts in the place of what this one does."""
        return ProvisionSurvey(
            replace(self.desired, hosts={**self.desired.hosts, **other.desired.hosts}),
            {**self.answers, **other.answers},
            {**self.changes, **other.changes},
            {**self.notes, **other.notes},
        )

    def only(self, hosts: Collection[str]) -> ProvisionSurvey:
        """What was found on some of the hosts."""
        return ProvisionSurvey(
            self.desired,
            {host: answer for host, answer in self.answers.items() if host in hosts},
            {host: changes for host, changes in self.changes.items() if host in hosts},
            {host: told for host, told in self.notes.items() if host in hosts},
        )

    @property
    def facts(self) -> dict[str, Facts]:
        """What was answered, per host that could be asked."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, Facts)}

    @property
    def unreachable(self) -> dict[str, Unreachable]:
        """Hosts that could not be asked, and why."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, Unreachable)}

    @property
    def without_python(self) -> dict[str, NoPython]:
        """Hosts that need an interpreter before anything else."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, NoPython)}

    @property
    def to_change(self) -> tuple[str, ...]:
        """Hosts on which Ansible has something to do."""
        return tuple(host for host in self.answers if self.changes.get(host) or host in self.without_python)

    @property
    def waiting_for_packages(self) -> dict[str, str]:
        """Hosts that install packages, and on which another process holds the lock that this waits for: by whom."""
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
        """The roles that differ somewhere, in their order; all where a host has no interpreter yet."""
        drifted = {change.role for changes in self.changes.values() for change in changes}
        return tuple(role for role in self.desired.roles if role in drifted or self.without_python)


@dataclass(frozen=True)
class Convergence:
    """What Ansible did, and how the hosts are after it."""

    result: PlaybookResult
    after: ProvisionSurvey
    """The hosts on which the playbook reached its end, asked again."""

    untouched: tuple[str, ...] = ()
    """Hosts that should have changed too, and were left alone because a batch before theirs went wrong."""

    @property
    def is_good(self) -> bool:
        """Every host that was changed is as it should be."""
        is_proven = not self.after.unreachable and not self.after.without_python
        return self.result.ok and is_proven and not any(self.after.changes.values())


def site_request(cluster: Cluster, roles: tuple[str, ...] = (), *, deep: bool = False) -> ProvisionRequest:
    """The playbook that provision runs, with the environment next to the inventory."""
    return ProvisionRequest(
        cluster,
        Content(content.playbook("site"), content.roles_directory()),
        roles=roles,
        extra_vars={"pylaunch_project_directory": str(project_directory(Path(cluster.sources[0])))},
        deep=deep,
    )


def survey(
    request: ProvisionRequest, *, host_facts: bool = False, on_answer: Callable[[str, Answer], None] | None = None
) -> ProvisionSurvey:
    """Ask every host what it is, and compare. Changes nothing.

    Raises ProvisionError for hosts whose distribution the roles do not know. With `host_facts`, hosts also report
    what no role manages.
    """
    found = _judged(request, _desired(request, USUAL_FAMILY), on_answer, host_facts=host_facts)
    families = {host: facts.distribution.family for host, facts in found.facts.items()}
    refuse_unknown(found.desired.hosts, {host: facts.distribution for host, facts in found.facts.items()})
    # What a host should be depends on its distribution, which only it can tell: those that are not what most are, are
    # asked once more.
    for family in {each for each in families.values() if each is not None} - {USUAL_FAMILY}:
        these = replace(request, cluster=request.cluster.only([host for host in families if families[host] == family]))
        found = found.with_(_judged(these, _desired(these, family), None, host_facts=host_facts))
    return found


def _desired(request: ProvisionRequest, family: str) -> Desired:
    desired = render(request.content, request.cluster, only=request.roles, extra_vars=request.extra_vars, family=family)
    return _without_own_limits(request.cluster, desired)


def converge(
    request: ProvisionRequest, found: ProvisionSurvey, *, on_progress: Callable[[Progress], None] | None = None
) -> Convergence:
    """Run the playbook for what `found` says has to change, and ask those hosts again.

    Raises ProvisionError when Ansible itself could not go on; tasks that failed are in the answer.
    """
    cluster = request.cluster.only(found.to_change)
    run = PlaybookRun(
        playbook=request.content.playbook,
        cluster=cluster,
        tags=found.roles_to_run,
        extra_vars={**request.extra_vars, **_environments_to_make_anew(found)},
        become_password=request.become_password,
    )
    result = run_playbook(run, on_event=on_progress)
    failed = {failure.host for failure in result.failures}
    finished = request.cluster.only(set(cluster.names) - failed)
    # Limits are those of the moment of login: connections made before would keep the old ones.
    disconnect(finished)
    again = replace(request, cluster=finished)
    # What a host without an interpreter runs, nobody knew before.
    return Convergence(result, survey(again) if found.without_python else _judged(again, found.desired, None))


def converge_in_batches(
    request: ProvisionRequest,
    found: ProvisionSurvey,
    batches: Sequence[Sequence[str]],
    *,
    on_batch: Callable[[ProvisionSurvey], None],
    on_progress: Callable[[Progress], None] | None = None,
) -> Convergence:
    """`converge`, batch after batch of the hosts to change, up to the first batch that does not end well."""
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
    after = ProvisionSurvey(
        first.after.desired,
        {**first.after.answers, **second.after.answers},
        {**first.after.changes, **second.after.changes},
        {**first.after.notes, **second.after.notes},
    )
    return Convergence(result, after)


def _environments_to_make_anew(found: ProvisionSurvey) -> dict[str, object]:
    """What tells the role that an environment is not whole, though its records are."""
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
    on_answer: Callable[[str, Answer], None] | None,
    *,
    host_facts: bool = False,
) -> ProvisionSurvey:
    asked = {host: questions(desired.hosts[host], deep=request.deep) for host in request.cluster.names}
    if host_facts:
        for host in request.cluster.hosts:
            asked[host.name]["host_facts"] = [host.rank_python]
    answers = probe(request.cluster, asked, on_answer=on_answer, sudo_password=request.become_password)
    facts = {host: answer for host, answer in answers.items() if isinstance(answer, Facts)}
    return ProvisionSurvey(
        desired,
        answers,
        {host: drift(desired.hosts[host], fact) for host, fact in facts.items()},
        {host: notes(desired.hosts[host], fact) for host, fact in facts.items()},
    )


def _without_own_limits(cluster: Cluster, desired: Desired) -> Desired:
    """`desired` without limits on this machine itself: nobody logs in, our process keeps what it was started with."""
    local = {host.name for host in cluster.hosts if host.connection is Connection.LOCAL}

    def without(states: Sequence[RoleState]) -> tuple[RoleState, ...]:
        return tuple(replace(state, limits={}) for state in states)

    hosts = {host: without(states) if host in local else states for host, states in desired.hosts.items()}
    return replace(desired, hosts=hosts)
