"""Refusals of sudo on the hosts to change, found before anything is sent to them."""

from pylaunch.agent.probe.readers.hosts import reach
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.provision.convergence import ProvisionRequest, ProvisionSurvey
from pylaunch.features.provision.inputs import Wanted
from pylaunch.model.diagnosis.host_errors import error_lines
from pylaunch.model.text.argv import pylaunch
from pylaunch.probe.answers import value, values
from pylaunch.probe.ask import ask, understood_all
from pylaunch.probe.program import probe


def refused_by_sudo(request: ProvisionRequest, found: ProvisionSurvey, *, on_all: bool = False) -> dict[str, str]:
    """Return the reasons of sudo by host, for hosts to change or `on_all`; one that does not answer is left to
    Ansible."""
    names = set(request.cluster.names if on_all else found.to_change) - found.without_python.keys()
    names = names and names - _with_own_become(found.wanted)
    if not names:
        return {}
    cluster, question = request.cluster.only(names), reach.sudo.ask(request.options.become_password)
    answers = ask(cluster, dict.fromkeys(names, probe(question)))
    refusals, _ = understood_all(answers, cluster, lambda answered: value(values(answered, question), reach.sudo))
    return {name: why for name, why in refusals.items() if isinstance(why, str)}


def _with_own_become(wanted: Wanted) -> frozenset[str]:
    """Return the hosts for which the inventory or Ansible's settings say how to become root."""
    from ansible import constants  # noqa: PLC0415 -- a tenth of a second, which no-op runs do without

    if constants.BECOME_PASSWORD_FILE is not None or constants.DEFAULT_BECOME_METHOD != "sudo":
        return frozenset(wanted.hosts)
    return wanted.with_own_become


def is_password_missing(request: ProvisionRequest, refused: dict[str, str]) -> bool:
    """Return whether a password may help that nobody has given."""
    return request.options.become_password is None and set(refused.values()) != {reach.NO_SUDO}


def sudo_error(request: ProvisionRequest, reasons: dict[str, str], *words: str) -> ClusterNotReadyError:
    """Return the error for hosts on which sudo refuses; `words` are options of the command that asks for the
    password."""
    given = request.options.become_password is not None
    return ClusterNotReadyError(
        f"sudo {'does not accept the password' if given else 'does not make this user root'}, so nothing was changed",
        evidence=error_lines(request.cluster.hosts, reasons),
        hint=f"{pylaunch('provision', *words, '-K')}, or let this user use sudo without a password;"
        " ansible_user=root needs no sudo, nor does the Python environment alone:"
        " pylaunch_unprivileged=true, pylaunch_env_root=/home/USER/envs",
    )
