"""`pylaunch init`: examine hosts and write their inventory."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from pylaunch import __version__
from pylaunch.base.dataclass import replace
from pylaunch.checks.survey import not_reached
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.init import choices
from pylaunch.features.init.choices import PROVISIONED, FoundHost, ProposedValue
from pylaunch.features.init.host_readings import examine, routes
from pylaunch.features.init.inventory_text import inventory_text
from pylaunch.features.init.sources import NamedHosts, named_hosts
from pylaunch.inventory.load import INVENTORY, read_settings
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import pylaunch
from pylaunch.probe.ask import Unreachable
from pylaunch.store.files import new_file, project_known_hosts
from pylaunch.terminal import console, hints, options
from pylaunch.terminal.options import current
from pylaunch.terminal.views import host_keys
from pylaunch.transport.host_keys import KeyOffer

EXAMPLES = """\b
Examples:
  pylaunch init 'gpu[01-04]'
  pylaunch init train@10.0.0.11 train@10.0.0.12:2222
  pylaunch init --from-hostfile hostfile --yes
  pylaunch init "$(sinfo -h -p gpu -o %N)"
"""

_CONDA = ("miniconda3", "miniforge3", "anaconda3")
_SHARED_PYTHONS = ("/opt/conda/bin/python", "/usr/local/bin/python3", "/usr/bin/python3")
_SCRIPTS = ("train.py", "main.py", "hello.py")


@click.command(epilog=EXAMPLES)
@click.argument("words", nargs=-1, metavar="[HOSTS]...")
@click.option(
    "--from-hostfile",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A hostfile of MPI or DeepSpeed, or lines of names and addresses.",
)
@options.output(f"File to write.  [default: {INVENTORY}]")
@click.option("-y", "--yes", is_flag=True, help="Accept new host keys without asking.")
def command(words: tuple[str, ...], *, from_hostfile: Path | None, output: Path | None, yes: bool) -> None:
    """Examine hosts over SSH and write their inventory, with a comment for each value.

    HOSTS are names as gpu[01-04] or train@10.0.0.11:2222. Shows new host keys and asks once. Finds devices, interfaces,
    addresses and interpreters, changes nothing on a host, and replaces no file. If a host fails, nothing is written.
    """
    file = output or Path(INVENTORY)
    source = named_hosts(words, from_hostfile)
    refuse(file, source)
    cluster = Cluster(source.hosts, known_hosts=str(project_known_hosts(file)))
    reached_at, untrusted = _trusted(cluster, yes=yes)
    candidates = _interpreters()
    answered, unreachable = examine(cluster.only(set(cluster.names) - untrusted.keys()), candidates)
    found = list(answered.values())
    same = {
        name: Unreachable(f"is the same machine as {first}", "name each machine once")
        for name, first in choices.same_machines(found).items()
    }
    _refuse_failed(cluster, {**untrusted, **unreachable, **same})
    found, chosen = _chosen(cluster, found, reached_at)
    interpreter = choices.interpreter(found, candidates)
    heading = (
        f"Written by pylaunch {__version__} init on {datetime.now(UTC):%Y-%m-%d}. Comments say what was found.",
        "Every key is described by: pylaunch help inventory",
    )
    with new_file(file) as out:
        out.write(inventory_text(heading, found, [*chosen, interpreter]).encode())
    console.say(f"wrote {file}: {fold(each.host.name for each in found)}")
    named = read_settings(Path.cwd()).inventory or Path.cwd() / INVENTORY
    current().source = file
    current().inventory = () if file.absolute() == named.absolute() else ("-i", str(file))
    has_python = bool(interpreter.values) or choices.is_provisioned(found)
    hints.say("pylaunch check", *next_steps(Path.cwd(), has_python=has_python))


def refuse(file: Path, source: NamedHosts) -> None:
    """Raise one UsageError for everything that is wrong before a host is contacted."""
    wrong = list(source.complaints)
    exists = f"{file} exists already, and nothing is replaced: name another file with -o FILE"
    if file.exists() or file.is_symlink():
        wrong.append(exists)
    if not source.hosts and not source.complaints:
        wrong.append("no host is named")
    if wrong:
        hint = "pylaunch init 'gpu[01-04]'; all forms: pylaunch init --help"
        if wrong == [exists]:
            hint = "to add hosts to it: pylaunch help add-or-replace-a-node"
        if len(wrong) == 1:
            raise UsageError(wrong[0], hint=hint)
        raise UsageError(f"{len(wrong)} errors, and no host was contacted", evidence=wrong, hint=hint)


def _trusted(cluster: Cluster, *, yes: bool) -> tuple[dict[str, str], dict[str, Unreachable]]:
    """Show new host keys and ask once. Return addresses of OpenSSH's connections, and untrusted hosts."""
    offer = host_keys.scanned(cluster)
    new = offer.acceptable(replace=False)
    if new:
        host_keys.show(new)
        if not (yes or host_keys.agreed(new)):
            raise ClusterNotReadyError("no key was accepted, so no host was examined", hint="pylaunch help trust")
        host_keys.accept_and_say(new, offer)
    addresses = {each.host: each.key.place.partition("]")[0].lstrip("[") for each in offer.keys}
    return addresses, _untrusted(offer)


def _untrusted(offer: KeyOffer) -> dict[str, Unreachable]:
    failed = {each.host: Unreachable(each.reason, each.hint) for each in offer.silent}
    for each in offer.keys:
        if each.state == "changed":
            reason = (
                f"its host key changed: it shows {each.key.fingerprint}, trusted so far: {each.before[0].fingerprint}"
            )
            hint = f"if it was reinstalled: {pylaunch('trust', '-H', each.host, '--replace')}"
            failed[each.host] = Unreachable(reason, hint)
    return failed


def _interpreters() -> tuple[str, ...]:
    """Return the interpreters to look for: those of this shell, provision, this directory, conda, Linux."""
    here = [f"{root}/bin/python" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := os.environ.get(name))]
    own = [f"{place}/bin/python" for place in (Path.cwd() / ".venv", *(Path.home() / name for name in _CONDA))]
    return tuple(dict.fromkeys((*here, PROVISIONED, *own, *_SHARED_PYTHONS)))


def _refuse_failed(cluster: Cluster, failed: Mapping[str, Unreachable]) -> None:
    """Raise ClusterNotReadyError with the reasons of the hosts that failed, if there are any."""
    if not failed:
        return
    lines = []
    for each in not_reached(cluster, failed):
        lines += [f"{fold(each.hosts)}: {each.text}", *([f"  hint: {each.fix}"] if each.fix else [])]
    raise ClusterNotReadyError(
        f"{len(failed)} of {len(cluster.hosts)} hosts could not be examined, so nothing was written",
        evidence=lines,
        hint="mend that and run it again, or name the others alone",
    )


def _chosen(
    cluster: Cluster, found: Sequence[FoundHost], reached_at: Mapping[str, str]
) -> tuple[list[FoundHost], list[ProposedValue]]:
    """Return the hosts with their names in the inventory, and the values for them."""
    renamed = choices.named_by_hostname(found, cluster.names)
    hosts = list(choices.with_names(found, renamed))
    addresses = choices.rank_addresses(
        hosts, {renamed.get(name, name): address for name, address in reached_at.items()}
    )
    at_addresses = replace(
        cluster,
        hosts=tuple(replace(each.host, fabric_address=addresses.values.get(each.host.name)) for each in hosts),
    )
    return hosts, [choices.devices(hosts), addresses, choices.interfaces(hosts, routes(at_addresses))]


def next_steps(directory: Path, *, has_python: bool) -> list[str]:
    """Return the commands that start the script in `directory`, or any program where there is none."""
    script = next((name for name in _SCRIPTS if (directory / name).is_file()), None)
    if script is None:
        return ["pylaunch start --workdir / -- hostname"]
    environment = f"{hints.ENVIRONMENT}    # or your own: pylaunch_python= in the inventory"
    return [*([] if has_python else [environment]), f"pylaunch start --sync . -- {script}"]
