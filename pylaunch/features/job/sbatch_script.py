"""A job of several roles as one script for sbatch: each part is a step of the job on nodes of its own. Pure.

Slurm chooses the nodes when the job starts, so hosts and ports are expansions of variables of the script.
"""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.features.job.course import stop_order
from pylaunch.features.job.job_file import JobFile, JobRole, OnFailure, ReadyBy, ReadyTest
from pylaunch.features.job.placement import Part, places
from pylaunch.features.job.supervisor import SUPERVISOR
from pylaunch.model.cluster import Connection, Host
from pylaunch.model.job import Framework
from pylaunch.model.plan import PORT_ENTRY, RunPlan
from pylaunch.model.text.argv import quoted
from pylaunch.render import shell, srun

PORTS = "61440 + (SLURM_JOB_ID * {count} + each) % 4096"
"""Above the ephemeral ports of Linux, and different for jobs on the same node."""

GRACE_S = 10
_PLAIN = re.compile(r"[\w%+,./:=@-]*", re.ASCII)
_OF_AN_EXPRESSION = re.compile(r"[.^$*+?{}\[\]\\|()]")
_OF_THE_SCRIPT = re.compile(r"hosts|ports|task_\d+")
"""Variables of the script that are used after those of a role are set."""


@dataclass(frozen=True)
class Expansions:
    """Places in words and values that become expansions of variables of the script."""

    mark: str
    """A text that is in no job file."""

    def of(self, variable: str) -> str:
        """Return the place of `variable`, such as hosts[0]."""
        return f"{self.mark}{variable}{self.mark}"

    def word(self, text: str) -> str:
        """Return `text` as one word of bash."""
        pieces = text.split(self.mark)
        if len(pieces) == 1:
            return shell.assigned(text)
        if all(_PLAIN.fullmatch(each) for each in pieces[::2]):
            return '"' + "".join(f"${{{each}}}" if place % 2 else each for place, each in enumerate(pieces)) + '"'
        return "".join(
            f'"${{{each}}}"' if place % 2 else shlex.quote(each) for place, each in enumerate(pieces) if each
        )


@dataclass(frozen=True)
class SlurmPart:
    """A part, whose addresses and ports are places for expansions."""

    part: Part
    rendezvous: str
    """Variable with its rendezvous port."""

    nodes: tuple[int, ...]
    """Positions of its nodes in the job."""


def in_job(parts: Sequence[Part], names: Sequence[str], expansions: Expansions) -> tuple[SlurmPart, ...]:
    """Return `parts` on the nodes of a job of Slurm, which stand for the hosts `names`."""
    number = len(parts)
    found = []
    for place, part in enumerate(parts):
        nodes = tuple(names.index(name) for name in part.cluster.names)
        hosts = [
            replace(_on_a_node(host), address=expansions.of(f"hosts[{node}]"), fabric_address=None)
            for node, host in zip(nodes, part.cluster.hosts, strict=True)
        ]
        ports: dict[str, int | str] = {}
        for name, fixed in part.role.ports.items():
            ports[name] = fixed or expansions.of(f"ports[{number}]")
            number += not fixed
        moved = replace(part, cluster=replace(part.cluster, hosts=tuple(hosts)), ports=ports)
        found.append(SlurmPart(moved, f"ports[{place}]", nodes))
    return tuple(found)


def _on_a_node(host: Host) -> Host:
    """Return `host` without the interface of a directory of this machine, which no node of Slurm has."""
    return replace(host, interface=None) if host.connection is Connection.LOCAL else host


def places_in_job(parts: Sequence[SlurmPart]) -> dict[str, str]:
    """Return the values of {roles.…}; a host has the name by which Slurm knows it, which is its address, too."""
    found = places([each.part for each in parts])
    return {
        key: found[f"{key.rpartition('.')[0]}.addresses"] if key.endswith(".hosts") else found[key] for key in found
    }


@dataclass(frozen=True)
class RoleScript:
    """Content of the script."""

    job: JobFile
    parts: Sequence[SlurmPart]
    plans: Mapping[str, RunPlan]
    """By name of the part."""

    hosts: Sequence[Host]
    """Hosts of the inventory for which the nodes of the job stand; all have as many devices."""

    sbatch: tuple[str, ...]
    """Further options of sbatch."""

    remarks: tuple[str, ...]
    expansions: Expansions

    @property
    def label(self) -> str:
        """The name of the job as a file name and as a word."""
        return shell.label(self.job.name)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the secrets of all roles."""
        return tuple(dict.fromkeys(name for plan in self.plans.values() for name in plan.job.secrets))

    def text(self) -> str:
        """Return the script."""
        variables = {name: srun.variables(plan)[0] for name, plan in self.plans.items()}
        common, devices = self._common(variables), len(self.hosts[0].devices)
        heading = (
            f"{self.job.name}: {len(self.job.roles)} roles on {len(self.hosts)} nodes; written by pylaunch render",
            f"Submit it with: sbatch {self.label}.sbatch",
            *self.remarks,
        )
        lines = [
            shell.SHEBANG,
            *shell.comments(heading),
            f"#SBATCH --job-name={self.label}",
            "#SBATCH --output=%x-%j.out",
            f"#SBATCH --nodes={len(self.hosts)}",
            "#SBATCH --exclusive",
            *([f"#SBATCH --gres=gpu:{devices}"] if devices else []),
            *(f"#SBATCH {option}" for option in self.sbatch),
            "# shellcheck disable=SC2016,SC2329",
            "set -uo pipefail",
            *shell.secret_guards(self.secrets),
            "# Steps get the environment of this script, also after sbatch --export=NONE.",
            "export SLURM_EXPORT_ENV=ALL",
            'mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
            f"if ((${{#hosts[@]}} != {len(self.hosts)})); then",
            f'  echo "error: the roles need {len(self.hosts)} nodes, and the job has ${{#hosts[@]}}" >&2',
            "  exit 2",
            "fi",
            "ports=()",
            f"for ((each = 0; each < {self._port_count()}; each++)); do",
            f'  ports+=("$(({PORTS.format(count=self._port_count())}))")',
            "done",
            f'logs="$PWD/{self.label}-$SLURM_JOB_ID"',
            *self._exports(common),
            "",
            *self._roles(),
            "",
            *self._ranks(variables, common),
            "",
            *self._readiness(),
            SUPERVISOR,
            *self._stops(),
            'say "job $job: $reason"',
            'exit "$code"',
        ]
        return "\n".join(lines) + "\n"

    def _port_count(self) -> int:
        return len(self.parts) + sum(not port for each in self.parts for port in each.part.role.ports.values())

    def _common(self, variables: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return the variables that all ranks share, without those of the file: PATH might be one."""
        first = self.plans[self.parts[0].part.name]
        return {
            name: value
            for name, value in variables[self.parts[0].part.name].items()
            if (name.startswith("PYLAUNCH_") or name not in first.job.env)
            and all(each.get(name) == value for each in variables.values())
        }

    def _exports(self, env: Mapping[str, str]) -> list[str]:
        return [f"export {name}={self.expansions.word(value)}" for name, value in env.items()]

    def _roles(self) -> list[str]:
        """Return the tables of the script: parts, roles, and what the job file says about them."""
        roles = self.job.roles
        of_role = {role.name: [each.part.name for each in self.parts if each.part.role is role] for role in roles}
        limits = {role.name: str(math.ceil(role.ready_timeout_s)) for role in roles if role.ready is not None}
        listening = {role.name: "yes" for role in roles if role.ready and role.ready.by in (ReadyBy.TCP, ReadyBy.HTTP)}
        return [
            f"job={shlex.quote(self.job.name)}",
            f"parts=({quoted(each.part.name for each in self.parts)})",
            f"finite=({quoted(each.part.name for each in self.parts if not each.part.role.service)})",
            _table("of_role", {name: " ".join(parts) for name, parts in of_role.items()}),
            _table("after", {role.name: " ".join(role.after) for role in roles if role.after}),
            _table("ready", {role.name: role.ready.words for role in roles if role.ready is not None}),
            _table("ready_timeout", limits),
            _table("listens", listening),
            _table("service", {role.name: "yes" for role in roles if role.service}),
            _table("continues", {role.name: "yes" for role in roles if role.on_failure is OnFailure.CONTINUE}),
        ]

    def _ranks(self, variables: Mapping[str, Mapping[str, str]], common: Mapping[str, str]) -> list[str]:
        """Return the functions that start the ranks of a part."""
        tasks: dict[tuple[str, ...], str] = {}
        cases: list[str] = []
        for each in self.parts:
            plan = self.plans[each.part.name]
            lines, argv = srun.task(plan, [plan.nodes])
            own = {name: value for name, value in variables[each.part.name].items() if name not in common}
            devices = self._devices(plan)
            if "CUDA_VISIBLE_DEVICES" in own:
                own["ROLE_DEVICES"], devices = own.pop("CUDA_VISIBLE_DEVICES"), ()
                lines = ['export CUDA_VISIBLE_DEVICES="$ROLE_DEVICES"', *lines]  # srun has set another value.
            elif not each.part.role.devices and self.hosts[0].devices:
                lines = ["export CUDA_VISIBLE_DEVICES=", *lines]
            task = tasks.setdefault((*_chosen(devices), *lines), f"task_{len(tasks)}")
            ranks = 1 if srun.is_torchrun(plan) else len(plan.nodes[0].ranks)
            nodes = ",".join(self.expansions.of(f"hosts[{node}]") for node in each.nodes)
            own["MASTER_ADDR"] = self.expansions.of(f"hosts[{each.nodes[0]}]")
            own["MASTER_PORT"] = self.expansions.of(each.rendezvous) if plan.port == PORT_ENTRY else plan.port
            others = [name for name in self.secrets if name not in plan.job.secrets]
            step = (
                f'step {each.part.name} {len(each.nodes)} {ranks} {self.expansions.word(nodes)} "${task}" '
                + " ".join(map(self.expansions.word, argv))
            )
            body = [
                *(f"{line} || exit" for line in shell.change_directory(plan)),
                *([f"unset {' '.join(others)}"] if others else []),
                *shell.path_line(plan, plan.coordinator),
                *self._exports(own),
                step,
            ]
            cases += [f"    {each.part.name})", *(f"      {line}" for line in body), "      ;;"]
        return [
            *(line for lines, name in tasks.items() for line in (f"{name}='", *(f"  {each}" for each in lines), "'")),
            "step() { # Become the step NAME of so many NODES, with so many TASKS on each of the HOSTS.",
            '  exec srun --job-name="$1" --nodes="$2" --ntasks-per-node="$3" --nodelist="$4" --overlap \\',
            '    --kill-on-bad-exit=1 --label --cpu-bind=none bash -c "$5" task "${@:6}"',
            "}",
            "ranks() { # Become the step of a part.",
            '  case "$1" in',
            *cases,
            "  esac",
            "}",
        ]

    def _devices(self, plan: RunPlan) -> tuple[int, ...]:
        """Return the positions of the devices of a part on each of its nodes; () for all. Raises UsageError."""
        hosts = {host.name: host for host in self.hosts}
        of_nodes = [tuple(map(hosts[node.host.name].devices.index, node.devices)) for node in plan.nodes]
        if len(set(of_nodes)) > 1:
            raise UsageError(
                f"[roles.{plan.job.part.role if plan.job.part else ''}] has different devices on its nodes, because it "
                "shares some of them with other roles: a step of Slurm has the same on each",
                hint="nodes = 1 and more replicas; or hosts = 'role:NAME', where that role has as many nodes",
            )
        return of_nodes[0] if len(of_nodes[0]) < len(self.hosts[0].devices) else ()

    def _readiness(self) -> list[str]:
        """Return the function that tests whether a part is ready."""
        cases = []
        for each in self.parts:
            test = each.part.role.ready
            if test is not None:
                cases += [f"    {each.part.name}) {self._test(each, test)} ;;"]
        return ["is_ready() { # Test the readiness of a part once.", '  case "$1" in', *cases, "  esac", "}"]

    def _test(self, each: SlurmPart, test: ReadyTest) -> str:
        part, word = each.part, self.expansions.word
        host, port = word(part.first.rank_address), word(str(part.ports.get(test.target, test.target)))
        match test.by:
            case ReadyBy.TCP:
                return f"accepts {host} {port}"
            case ReadyBy.HTTP:
                return f"answers {host} {port} {word(test.path)}"
            case ReadyBy.FILE:
                return f"has_file {host} {word(test.target)}"
            case _:
                return f'grep -qF -e {word(test.target)} -- "$logs.{part.name}.out"'

    def _stops(self) -> list[str]:
        """Return the calls that end the roles, those that use others first."""
        order = stop_order(self.job.roles)
        found = []
        for number in sorted(set(order.values())):
            parts = [each.part for each in self.parts if order[each.part.role.name] == number]
            grace = max(self._grace(part) for part in parts)
            found.append(f"stop {grace} {quoted(part.name for part in parts)}")
        return found

    def _grace(self, part: Part) -> int:
        grace = self.plans[part.name].job.grace
        return GRACE_S if grace is None else math.ceil(grace.total_seconds())


def _table(name: str, values: Mapping[str, str]) -> str:
    inside = " ".join(f"[{key}]={shlex.quote(value)}" for key, value in values.items())
    return f"declare -A {name}=({inside})"


def _chosen(devices: Sequence[int]) -> list[str]:
    """Return the lines that leave these of the devices of the step to a task."""
    if not devices:
        return []
    chosen = ",".join(f"${{devices[{each}]:?}}" for each in devices)
    return [
        'IFS=, read -ra devices <<<"${CUDA_VISIBLE_DEVICES:?Slurm gave no GPU to this step}"',
        f'export CUDA_VISIBLE_DEVICES="{chosen}"',
    ]


def refused(role: JobRole) -> tuple[str, str] | None:
    """Return a key of `role` that no script can keep, with its value and the reason, and the next step; or None."""
    if role.hosts is not None and role.beside is None:
        return (
            f"hosts = {role.hosts!r}: Slurm chooses the nodes of the job",
            "omit it; --constraint FEATURES or --sbatch-arg=--nodelist=NAMES choose the nodes of all roles",
        )
    framework = role.options.get("framework")
    if framework in {each.value for each in Framework if each.has_nodes_as_ranks}:
        return f"framework = {framework!r}: without pylaunch on the nodes, nothing connects them", "pylaunch start"
    test = role.ready
    if test is not None and test.by is ReadyBy.STEP:
        return (
            f"ready = {test.words!r}: without pylaunch on the nodes, nothing reports steps",
            "a file that the program writes: ready = 'file:/shared/ready'; or tcp:PORT, http:PORT/PATH",
        )
    if test is not None and test.by is ReadyBy.OUTPUT and _OF_AN_EXPRESSION.search(test.target):
        return (
            f"ready = {test.words!r}: a script compares texts, no regular expressions of Python",
            "a plain text, such as ready = 'output:Server started'",
        )
    return None


def refused_variable(names: Iterable[str]) -> str | None:
    """Return the first name that a role may not set, because the script uses it."""
    return next((name for name in names if _OF_THE_SCRIPT.fullmatch(name)), None)
