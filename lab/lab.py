"""Create, load and remove labs. `with Lab.up("name") as lab:` removes the lab at the end in any case."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from lab import cluster_file, locks, network, slurm, spec
from lab.images import image, recipe, releases, tools
from lab.images.tools import Report
from lab.nodes import boot, cgroup, kernel
from lab.nodes.cgroup import Cgroup
from lab.nodes.node import LabNode
from lab.spec import LabSpec, Machines
from lab.ssh import close_all
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import LabError, PylaunchError, UsageError
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.process import Completed

TOOL = (sys.executable, "-P", "-m", "lab")
"""Command line of this tool."""


@dataclass(frozen=True)
class Request:
    """A requested lab."""

    name: str
    nodes: int = 3
    share: tuple[Path, ...] = ()
    inventory: Path | None = None
    """None: in the lab's directory."""

    release: str | None = None
    """Codename of the nodes' release; None: this machine's."""

    addition: str | None = None
    """Software of the nodes beyond the image of all labs: "slurm"."""

    def spec(self, machines: Machines | None) -> LabSpec:
        """Return the spec of this lab, with `machines` for its nodes."""
        where = self.inventory or spec.lab_paths(self.name).inventory
        share = tuple(str(path) for path in self.share)
        return LabSpec(self.name, spec.node_names(self.nodes), str(where.absolute()), share, machines, self.addition)


@dataclass(frozen=True)
class Lab:
    """A lab with real nodes."""

    spec: LabSpec
    machines: Machines

    @classmethod
    def up(
        cls, name: str, *, nodes: int = 3, share: Sequence[Path] = (), inventory: Path | None = None,
        release: str | None = None,
    ) -> "Lab":  # fmt: skip
        """Create a lab and wait until every node is ready. Remains of a killed lab of this name are removed first."""
        shared = tuple(path.resolve() for path in share)
        return start(Request(name, nodes, shared, inventory, release), lambda line: None)

    @classmethod
    def load(cls, name: str) -> "Lab":
        """Load the lab `name`. Raises LabError when it does not exist or has local nodes."""
        kept = spec.load(name)
        if kept.machines is None:
            raise LabError(
                f"lab {name} has local nodes: they are directories, not machines to enter, cut or freeze",
                hint="as root, on a machine with systemd-nspawn: python -m lab up --name NAME",
            )
        return cls(kept, kept.machines)

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """All nodes, in rank order."""
        return tuple(LabNode(name, self.spec, self.machines) for name in self.spec.nodes)

    @property
    def inventory(self) -> Path:
        """The inventory of the lab."""
        return Path(self.spec.inventory)

    def __iter__(self) -> Iterator[LabNode]:
        return iter(self.nodes)

    def __getitem__(self, name: str) -> LabNode:
        if name not in self.spec.nodes:
            raise UsageError(f"lab {self.spec.name} has no node {name}: it has {', '.join(self.spec.nodes)}")
        return LabNode(name, self.spec, self.machines)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def down(self) -> None:
        """Remove the lab."""
        down(self.spec.name)

    def command(self, *arguments: str) -> Argv:
        """Return the command line of this pylaunch; with `environment`, its records stay in the lab's directory."""
        return (sys.executable, "-P", "-c", "from pylaunch.cli.main import main; main()", *arguments)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of `command`."""
        found = {"XDG_STATE_HOME": str(self.spec.paths.xdg_state)}
        if self.spec.addition == slurm.ADDITION:
            found["PATH"] = f"{self.spec.paths.slurm_commands}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return found

    def tool(self, *arguments: str, timeout_s: float | None = None) -> Completed:
        """Run `python -m lab` to its end."""
        return process.run((*TOOL, *arguments), env=self.environment, timeout_s=timeout_s)

    def pylaunch(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None,
        timeout_s: float | None = None,
    ) -> Completed:  # fmt: skip
        """Run this pylaunch to its end; its records of runs stay in the lab's directory."""
        return process.run(
            self.command(*arguments), env={**self.environment, **(env or {})}, cwd=cwd, timeout_s=timeout_s
        )


def start(request: Request, report: Report) -> Lab:
    """Create the requested lab. Raises LabError when it is up already, or when this machine cannot have real nodes."""
    check(request)
    if (why_not := tools.obstacle()) is not None:
        raise LabError(f"no real nodes on this machine: {why_not}", hint="python -m lab up --local")
    with locks.changing_lab(request.name):
        clear_remains(request.name, report)
        tools.ensure(report)
        base = image.ready_image(report, request.release, request.addition)
        resolver = image.resolver_settings(report)
        with removed_on_failure(request.name, report):
            lab = _decide(request, base)
            _build(lab, resolver, report)
    return lab


@contextlib.contextmanager
def removed_on_failure(name: str, report: Report) -> Iterator[None]:
    """Remove lab `name`, complete or not, when this block raises. The error of the block propagates in any case."""
    try:
        yield
    except BaseException:
        try:
            _remove(name)
        except PylaunchError as error:
            report(f"lab {name} was not removed: {error}; type: python -m lab down --name {name}")
        raise


def check(request: Request) -> None:
    """Raise UsageError for an invalid request."""
    spec.check_request(request.name, request.nodes)
    if request.release is not None and request.release != image.controller_codename():
        releases.distribution(request.release)
    for path in request.share:
        if not path.is_dir():
            raise UsageError(f"--share {path}: not a directory")
    if request.inventory is not None:
        cluster_file.check_place(request.inventory)


def _decide(request: Request, base: Path) -> Lab:
    own = cgroup.here()
    assert own is not None
    with locks.changing("machine"):
        subnet = network.choose_subnet()
        machines = Machines(str(base), str(subnet), str(own / f"pylaunch-lab-{request.name}"))
        decided = request.spec(machines)
        spec.save(decided)
        # The route to the subnet marks it as taken for the next lab.
        kernel.raise_settings()
        network.connect(decided, machines)
    return Lab(decided, machines)


def _build(lab: Lab, resolver: str, report: Report) -> None:
    paths = lab.spec.paths
    comment = f"pylaunch-lab-{lab.spec.name}"
    process.run(
        ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(paths.key))
    ).checked(error=LabError)  # fmt: skip
    report(f"booting {len(lab.nodes)} nodes on {lab.machines.subnet}")
    boots = []
    for node in lab.nodes:
        boot.personalise(node, resolver)
        boots.append(boot.Boot(node))
    for each in boots:
        each.wait()
    cluster_file.record_host_keys(lab.spec, {node.address: cluster_file.public_key(node) for node in lab.nodes})
    cluster_file.write_inventory(lab.spec, cluster_file.real_inventory(lab.spec, lab.nodes))
    if lab.spec.addition == slurm.ADDITION:
        slurm.start(lab.spec, lab.nodes, report)
    paths.complete.touch()


def clear_remains(name: str, report: Report) -> None:
    """Remove what a killed `up` or `down` left of lab `name`. Raises LabError when the lab is up and complete."""
    if not spec.lab_paths(name).directory.exists():
        return
    if name in spec.names() and spec.lab_paths(name).complete.exists() and is_alive(spec.load(name)):
        raise LabError(f"lab {name} is up already", hint=f"python -m lab down --name {name}")
    report(f"removing the remains of an earlier lab {name}")
    _remove(name)


def is_alive(kept: LabSpec) -> bool:
    """Return whether the lab runs. Local nodes always do."""
    return kept.machines is None or Cgroup(Path(kept.machines.cgroup)).is_populated


def down(name: str) -> None:
    """Remove lab `name` and everything it changed on this machine. Raises LabError when there is no such lab."""
    spec.check_name(name)
    if not spec.lab_paths(name).directory.exists():
        raise spec.unknown(name)
    with locks.changing_lab(name):
        _remove(name)


def _remove(name: str) -> None:
    paths = spec.lab_paths(name)
    if not paths.spec.exists():
        # Before the spec is written, only the directory exists.
        if paths.directory.exists():
            process.run(("rm", "-rf", "--one-file-system", "--", str(paths.directory))).checked(error=LabError)
        return
    kept = spec.load(name)
    paths.complete.unlink(missing_ok=True)
    if kept.machines is not None:
        lab = Lab(kept, kept.machines)
        _close_connections(lab)
        for node in lab.nodes:
            boot.end(node)
        Cgroup(Path(kept.machines.cgroup)).end()
        cluster_file.record_host_keys(kept, {node.address: None for node in lab.nodes})
        network.disconnect(name)
    for leftover in sorted(paths.directory.iterdir()):
        if leftover != paths.spec:
            process.run(("rm", "-rf", "--one-file-system", "--", str(leftover))).checked(error=LabError)
    with locks.changing("machine"):
        paths.spec.unlink()
        paths.directory.rmdir()
        if all(spec.load(other).machines is None for other in spec.names()):
            kernel.restore_settings()


def _close_connections(lab: Lab) -> None:
    """Close the SSH connections that pylaunch keeps open to the nodes: each is a process of this machine."""
    for node in lab.nodes:
        for user in ("root", recipe.USER):
            close_all(node.address, user)


def start_local(request: Request, report: Report) -> LabSpec:
    """Create a lab of local nodes, which are directories of this machine, for machines that cannot have real ones.

    Needs no privilege and changes nothing outside the lab's own directory.
    """
    check(request)
    with locks.changing_lab(request.name):
        clear_remains(request.name, report)
        decided = request.spec(None)
        with removed_on_failure(request.name, report):
            with locks.changing("machine"):
                spec.save(decided)
            for name in decided.nodes:
                decided.paths.node(name).directory.mkdir(mode=0o700, parents=True)
            cluster_file.write_inventory(decided, cluster_file.local_inventory(decided))
            decided.paths.complete.touch()
    return decided
