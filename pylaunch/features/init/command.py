"""`pylaunch init`: examine hosts and write their inventory."""

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pylaunch import __version__
from pylaunch.agent.shared.scripts import read_program
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.checks import suite
from pylaunch.checks.suite import NO_SCRIPT, Needs, Result, check, plan_check, select
from pylaunch.checks.survey import shared_failures
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.init.gather import GatheredHosts, gathered
from pylaunch.features.init.host_readings import examine, routes
from pylaunch.features.init.judgement import choices
from pylaunch.features.init.judgement.choices import PROVISIONED, FoundHost, ProposedValue
from pylaunch.features.init.judgement.inventory_text import inventory_text
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import INVENTORY
from pylaunch.inventory.settings import SETTINGS, read_settings
from pylaunch.model.cluster import Cluster, Connection
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.probe.ask import Unreachable
from pylaunch.store.files import new_file, project_known_hosts
from pylaunch.terminal import console, hints, options
from pylaunch.terminal.document import current
from pylaunch.terminal.views import findings, host_keys
from pylaunch.transport.host_keys import KeyOffer

EXAMPLES = """\b
Examples:
  pylaunch init 'gpu[01-04]'
  pylaunch init train@10.0.0.11 train@10.0.0.12:2222
  pylaunch init --from-ssh-config 'gpu*'
  pylaunch init --from-hostfile hostfile --yes
  pylaunch init "$(sinfo -h -p gpu -o %N)"
  pylaunch init --from-inventory site.yml -o train.ini --partial
"""

_DIRECTORIES = ("/var/tmp", "/dev/shm", "/data", "/scratch", "/shared", "/mnt")
_CONDA = ("miniconda3", "miniforge3", "anaconda3")
_SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
_SHARED_PYTHONS = ("/opt/conda/bin/python", *reversed(_SYSTEM_PYTHONS))
_SCRIPTS = ("train.py", "main.py", "hello.py")


@dataclass(frozen=True, kw_only=True)
class InitFlags:
    """Flags of `init` as they are parsed."""

    from_ssh_config: str | None
    from_hostfile: Path | None
    from_inventory: Path | None
    output: Path | None
    python: str | None
    partial: bool
    yes: bool


@click.command(epilog=EXAMPLES)
@click.argument("words", nargs=-1, metavar="[HOSTS | -]...")
@click.option("--from-ssh-config", metavar="PATTERN", help="Hosts of ~/.ssh/config whose names match: 'gpu*'.")
@click.option(
    "--from-hostfile",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A hostfile of MPI or DeepSpeed, or lines of names and addresses.",
)
@click.option(
    "--from-inventory", type=click.Path(path_type=Path), metavar="PATH", help="Hosts of another inventory of Ansible."
)
@options.output(f"File to write.  [default: {INVENTORY}]")
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: one with torch or jax, if any]")
@click.option("--partial", is_flag=True, help="Write the file although hosts fail; they are comments in it.")
@click.option("-y", "--yes", is_flag=True, help="Accept new host keys without asking.")
def command(words: tuple[str, ...], **given: Any) -> None:
    """Examine hosts over SSH and write their inventory, with a comment for each value.

    HOSTS are names as gpu[01-04] or train@10.0.0.11:2222; "-" reads stdin: names or a hostfile. Shows new
    host keys and asks once. Finds devices, interfaces, addresses, interpreters and shared directories, changes nothing
    on a host, replaces no file, and runs the first check. With "-", which is no terminal
    to ask on, new host keys need --yes. If a host fails, nothing is written without --partial. Exits with 0 when the
    file is written; findings of the check do not change that.
    """
    flags = InitFlags(**given)
    file = flags.output or Path(INVENTORY)
    source = gathered(words, flags.from_hostfile, flags.from_ssh_config, flags.from_inventory)
    _refuse(file, source, flags.python)
    cluster = Cluster(source.hosts, known_hosts=str(project_known_hosts(file)))
    reached_at, silent = _trusted(cluster, yes=flags.yes)
    candidates = _interpreters(flags.python, source)
    answered, unreachable = examine(cluster.only(set(cluster.names) - silent.keys()), candidates, _directories(source))
    failed = {**silent, **unreachable, **_failures(answered, flags.python)}
    found = [each for name, each in answered.items() if name not in failed]
    _report(cluster, failed, is_fatal=not flags.partial or not found)
    found, chosen = _chosen(cluster, found, source.slots, reached_at)
    interpreter = choices.interpreter(found, candidates, flags.python)
    if interpreter.values:  # One key says it.
        found = [replace(each, host=replace(each.host, python=None)) for each in found]
    heading = (
        f"Written by pylaunch {__version__} init on {datetime.now(UTC):%Y-%m-%d}. Comments say what was found.",
        "Every key is described by: pylaunch help inventory",
    )
    reasons = {name: why.reason for name, why in failed.items()}
    text = inventory_text(heading, found, [*chosen, interpreter], choices.remarks(found), reasons)
    with new_file(file) as out:
        out.write(text.encode())
    console.say(f"wrote {file}: {fold(each.host.name for each in found)}")
    _name_in_settings(file)
    current().source = file
    current().inventory = () if _is_default(file) else ("-i", str(file))
    has_python = bool(interpreter.values) or _is_provisioned(found)
    steps = ["pylaunch check --fix    # run the roles that repair the findings"] if _first_check(file).failed else []
    hints.say(*steps, *next_steps(Path.cwd(), None if has_python else _python_of_all(found)))


def _refuse(file: Path, source: GatheredHosts, python: str | None) -> None:
    """Raise one UsageError for everything that is wrong before a host is contacted."""
    wrong = list(source.complaints)
    exists = f"{file} exists already, and nothing is replaced: name another file with -o FILE"
    if file.exists() or file.is_symlink():
        wrong.append(exists)
    if python is not None and not python.startswith("/"):
        wrong.append(f"--python {python}: expected an absolute path")
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
    if all(host.connection is not Connection.SSH for host in cluster.hosts):
        return {}, {}
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


def _interpreters(python: str | None, source: GatheredHosts) -> tuple[str, ...]:
    """Return the interpreters to look for: those of the source, this shell, provision, this directory, conda, Linux."""
    if python is not None:
        return (python,)
    here = [f"{root}/bin/python" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := os.environ.get(name))]
    known = [host.python for host in source.hosts if host.python is not None]
    conda = [f"{home}/{name}" for home in _homes(source) for name in _CONDA]
    own = [f"{place}/bin/python" for place in (Path.cwd() / ".venv", *conda)]
    return tuple(dict.fromkeys((*known, *here, PROVISIONED, *own, *_SHARED_PYTHONS)))


def _homes(source: GatheredHosts) -> list[str]:
    """Return the usual home directories of the users on the hosts; that of this user where a host names none."""
    users = dict.fromkeys(host.ssh.user for host in source.hosts)
    return [str(Path.home()) if user is None else "/root" if user == "root" else f"/home/{user}" for user in users]


def _directories(source: GatheredHosts) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_homes(source), str(Path.cwd()), *_DIRECTORIES)))


def _failures(found: Mapping[str, FoundHost], python: str | None) -> dict[str, Unreachable]:
    failed = {
        name: Unreachable(f"is the same machine as {first}", "name each machine once")
        for name, first in choices.same_machines(list(found.values())).items()
    }
    for name, each in found.items():
        if python is not None and python not in each.interpreters:
            failed[name] = Unreachable(f"no Python runs at {python}", "name another one with --python")
    return failed


def _report(cluster: Cluster, failed: Mapping[str, Unreachable], *, is_fatal: bool) -> None:
    lines = []
    for each in shared_failures(cluster, failed):
        lines += [*each.lines, *([f"  hint: {each.hint}"] if each.hint else [])]
    if not lines:
        return
    count = f"{len(failed)} of {len(cluster.hosts)} hosts could not be examined"
    if is_fatal:
        others = ", or write the others alone with --partial" if len(failed) < len(cluster.hosts) else ""
        hint = f"mend that and run it again{others}"
        raise ClusterNotReadyError(f"{count}, so nothing was written", evidence=lines, hint=hint)
    console.say("\n".join([f"warning: {count}", *(f"  {line}" for line in lines)]))


def _chosen(
    cluster: Cluster,
    found: list[FoundHost],
    slots: Mapping[str, int],
    reached_at: Mapping[str, str],
) -> tuple[list[FoundHost], list[ProposedValue]]:
    """Return the hosts with their names in the inventory, and the values for them."""
    renamed = choices.named_by_hostname(found, cluster.names)
    hosts = list(choices.with_names(found, renamed))
    addresses = choices.rank_addresses(
        hosts, {renamed.get(name, name): address for name, address in reached_at.items()}
    )
    at_addresses = replace(
        cluster,
        hosts=tuple(
            replace(each.host, fabric_address=addresses.values.get(each.host.name, each.host.fabric_address))
            for each in hosts
        ),
    )
    return hosts, [
        choices.devices(hosts, {renamed.get(name, name): count for name, count in slots.items()}),
        addresses,
        choices.interfaces(hosts, routes(at_addresses)),
    ]


def _is_provisioned(found: list[FoundHost]) -> bool:
    return all(PROVISIONED in each.interpreters for each in found)


def _is_default(file: Path) -> bool:
    named = read_settings(Path.cwd()).inventory
    return file.absolute() == (named or Path.cwd() / INVENTORY).absolute()


def _name_in_settings(file: Path) -> None:
    """Write pylaunch.toml where verbs would not find the inventory without -i, and there is no such file."""
    settings = Path(SETTINGS)
    if _is_default(file) or settings.exists():
        return
    with new_file(settings) as out:
        out.write(f"# The inventory of verbs without -i.\ninventory = {json.dumps(str(file))}\n".encode())
    console.say(f"wrote {SETTINGS}: verbs without -i use {file}")


def _first_check(file: Path) -> Result:
    job = JobSpec(NO_SCRIPT, Framework.DIRECT, str(Path.cwd()))
    with console.working("running the first check"):
        found = check(plan_check(load_cluster(file), job, Needs(), select(suite.CHECKS)))
    findings.show(found.findings)
    console.say(findings.summary(found), style="red" if found.failed else "green")
    return found


def _python_of_all(found: list[FoundHost]) -> str:
    """Return an interpreter of the system that all hosts have; "python3" without one."""
    return next((path for path in _SYSTEM_PYTHONS if all(path in each.interpreters for each in found)), "python3")


def next_steps(directory: Path, bare_python: str | None) -> list[str]:
    """Return the commands that start the script in `directory`, or any program where there is none.

    `bare_python` is an interpreter of all hosts where they have no environment with packages.
    """
    script = next((name for name in _SCRIPTS if (directory / name).is_file()), None)
    if script is None:
        return ["pylaunch start -- hostname"]
    start = f"pylaunch start --sync . -- {script}"
    if bare_python is None:
        return [start]
    packages = _packages(directory, script)
    if not packages:
        return [f"pylaunch start --sync . --python {bare_python} -- {script}"]
    listed = f"printf '%s\\n' {quoted(tuple(packages))} > requirements.txt    # what {script} imports"
    first = [] if hints.requirements_here() else [listed]
    return [*first, f"{hints.ENVIRONMENT}    # or your own: pylaunch_python= in the inventory", start]


def _packages(directory: Path, script: str) -> list[str]:
    """Return the packages that `script` and its modules import, those of Python and of `directory` aside."""
    read = read_program(str(directory), [script])
    own = {part for each in read for part in Path(os.path.relpath(each.path, directory)).with_suffix("").parts}
    return sorted({name for each in read for name in each.packages} - own - set(sys.stdlib_module_names))
