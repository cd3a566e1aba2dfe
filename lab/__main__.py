"""`python -m lab`: a real cluster on this machine, for demonstrations, tests and benchmarks."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from lab import lab as labs
from lab import slurm, spec
from lab import status as lab_status
from lab.drill.command import command as drill
from lab.images import tools
from lab.images.recipe import ADDITIONS
from lab.images.releases import RELEASES
from lab.lab import Lab, Request
from lab.node_faults import faults
from lab.node_faults.faults import Direction, Fault
from lab.node_faults.resource_faults import LittleMemory, Stall
from lab.ssh import login
from pylaunch.base.dataclass import asdict
from pylaunch.cli.main import main
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Host, SshOptions
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.store.files import project_known_hosts
from pylaunch.terminal import console, document, options

name_option = click.option(
    "--name", default="lab", show_default=True, help="Which lab; labs of different names live side by side."
)


NAME = "python -m lab"


class OfOneLab(click.Command):
    """A command whose lab is named with --name: a word in its place is refused with the option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises UsageError for a word that is no option."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise UsageError(
                f"{ctx.command_path} takes no argument: {ctx.args[0]}",
                hint=f"{ctx.command_path} --name {quoted((ctx.args[0],))}",
            )
        return rest


def _say_which(lab: str, what: str) -> None:
    """Print what was done to a lab, and the labs to which it was not done."""
    console.say(f"lab {lab}{what}")
    others = [each for each in spec.names() if each != lab]
    if others:
        console.say(f"note: other labs are up: {', '.join(others)}; --name chooses one")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """A real cluster on this machine: systemd nodes with their own sshd, network, packages and services."""


@command.command(cls=OfOneLab)
@name_option
@click.option("-n", "--nodes", default=3, show_default=True, help="How many nodes: n1, n2, …")
@click.option(
    "--inventory-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the inventory; host keys go next to it. Without it, both are kept with the lab.",
)
@click.option(
    "--share",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory that every node sees at the same path, like a shared file system. May be repeated.",
)
@click.option(
    "--release",
    metavar="CODENAME",
    help=f"The nodes' release, instead of this machine's own: {', '.join(RELEASES)}.",
)
@click.option(
    "--with",
    "addition",
    type=click.Choice(list(ADDITIONS)),
    help="Software that all nodes get, too; Slurm is for tests only.",
)
@click.option("--local", "is_local", is_flag=True, help="Local nodes, even where real ones can be had.")
def up(name: str, nodes: int, inventory_out: Path | None, is_local: bool, **asked: Any) -> None:
    """Make a lab and wait until its nodes are ready. The path of its inventory is printed on stdout.

    Real nodes need root and systemd-nspawn. Elsewhere, or with --local, nodes are local: directories of this machine,
    with ranks that meet on the loopback interface. That is enough to start jobs, not to provision hosts or break them.
    """
    share, release = tuple(path.resolve() for path in asked["share"]), asked["release"]
    addition = asked["addition"]
    request = Request(name, nodes, share, inventory_out, release, addition)
    why_local = "requested" if is_local else tools.obstacle()
    if why_local is not None and release is not None:
        raise UsageError(f"--release {release}: local nodes ({why_local}) have the release of this machine")
    if why_local is not None and addition is not None:
        raise UsageError(f"--with {addition}: local nodes ({why_local}) run no services")
    if why_local is None:
        made = labs.start(request, console.say).spec
    else:
        console.say(f"local nodes ({why_local}): directories of this machine, not machines of their own")
        made = labs.start_local(request, console.say)
    for node in lab_status.look(name):
        failed = f": {', '.join(node.failed_units)} failed" if node.failed_units else ""
        console.say(f"{node.name}  {node.address}  {node.state}{failed}")
    if addition == slurm.ADDITION:
        console.say(
            "\nhint: its Slurm commands, which run on the first node: "
            f"export PATH={quoted((str(made.paths.slurm_commands),))}:$PATH"
        )
    console.data(made.inventory)


@command.command(cls=OfOneLab)
@name_option
@options.as_json
def status(name: str, as_json: bool) -> None:
    """Show the nodes of a lab and what state each is in."""
    nodes = lab_status.look(name)
    if as_json:
        inventory = spec.load(name).inventory
        known = {node.name: {key: value for key, value in asdict(node).items() if key != "name"} for node in nodes}
        hosts = document.hosts(known, {}, known)
        document.show({"name": name, "inventory": inventory, "hosts": hosts})
        return
    console.table(
        ("node", "address", "state", "link", "failed units"),
        [(node.name, node.address, node.state, node.link, " ".join(node.failed_units)) for node in nodes],
    )


@command.command(context_settings={"allow_interspersed_args": False})
@name_option
@click.argument("node")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def ssh(name: str, node: str, argv: tuple[str, ...]) -> NoReturn:
    """Log in to NODE over SSH with the lab's key, or run a command there: python -m lab ssh n1 -- 'uname -a; uptime'.

    As with ssh, the words are joined with spaces, and the shell of NODE reads them.
    """
    lab = Lab.load(name)
    # Options end at NODE, so the -- that people write after it arrives here.
    remote = argv[1:] if argv[:1] == ("--",) else argv
    host = Host(node, lab[node].address, ssh=SshOptions(user="root", private_key=str(lab.spec.paths.key)))
    words = login(host, str(project_known_hosts(lab.inventory)), remote)
    os.execvp(words[0], words)


@command.command(cls=OfOneLab)
@name_option
def down(name: str) -> None:
    """Remove a lab and everything it did to this machine."""
    nodes = spec.load(name).nodes if name in spec.names() else ()
    labs.down(name)
    _say_which(name, f" is gone{': ' * bool(nodes)}{fold(nodes)}")


@command.group()
def fault() -> None:
    """Break a node in one way, or with --undo make it good again."""


def _on_a_node(function: Callable[..., Fault]) -> click.Command:
    """A subcommand of `fault`: `function` says which fault; node, lab and --undo are the same for all."""

    @functools.wraps(function)
    def obey(name: str, node: str, undo: bool, **arguments: object) -> None:
        chosen = function(**arguments)
        broken = Lab.load(name)[node]
        if undo:
            chosen.undo(broken)
        else:
            chosen.inject(broken)
        _say_which(name, f", node {node}: {function.__name__}{' undone' if undo else ''}")

    undo_option = click.option("--undo", is_flag=True, help="Make it good again.")
    return fault.command()(click.argument("node")(name_option(undo_option(obey))))


@_on_a_node
def cut() -> Fault:
    """Pull the network cable of NODE."""
    return faults.Cut()


@_on_a_node
@click.argument("port", type=click.IntRange(1, 65535))
@click.option(
    "--direction",
    type=click.Choice([direction.value for direction in Direction]),
    default=Direction.BOTH.value,
    show_default=True,
    help="Packets that come in to NODE, that go out from it, or both.",
)
def filter(port: int, direction: str) -> Fault:
    """Drop TCP packets to PORT at the cable of NODE, as a firewall between it and all others would."""
    return faults.Filter(port, Direction(direction))


@_on_a_node
def kill() -> Fault:
    """Switch NODE off, as at power loss. Its disk stays; --undo boots it again."""
    return faults.Kill()


@_on_a_node
def freeze() -> Fault:
    """Stop every process of NODE: its connections stay open and nothing answers."""
    return faults.Freeze()


@_on_a_node
@click.argument("path", default="/var/tmp")
def fill(path: str) -> Fault:
    """Leave no room in PATH (/var/tmp) of NODE: a small full file system hides what is there."""
    return faults.Fill(path)


@_on_a_node
def isolate() -> Fault:
    """Drop everything between NODE and the other nodes; the controller still reaches all of them."""
    return faults.Isolate()


@_on_a_node
@click.argument("mbps", type=click.FloatRange(1, 100_000))
def slow(mbps: float) -> Fault:
    """Let NODE receive at most MBPS megabits per second."""
    return faults.SlowCable(mbps)


@_on_a_node
@click.argument("path", default="/mnt/stalled")
def stall(path: str) -> Fault:
    """Mount a file system that never answers on PATH (/mnt/stalled) of NODE, as NFS whose server is gone."""
    return Stall(path)


@_on_a_node
@click.argument("size", default="256MiB")
def memory(size: str) -> Fault:
    """Let the processes of NODE take SIZE (256MiB) more memory; then the kernel kills one. Needs cgroup version 1."""
    return LittleMemory(options.size_option("SIZE", size))


@_on_a_node
@click.argument("port", type=click.IntRange(1, 65535))
def occupy(port: int) -> Fault:
    """Have a process of NODE listen on TCP PORT."""
    return faults.Occupy(port)


@_on_a_node
@click.argument("seconds", type=float, default=60.0)
def clock(seconds: float) -> Fault:
    """Shift the time by SECONDS (60; earlier: -- NODE -60) for programs that start on NODE from now on.

    All nodes share this machine's clock. libfaketime, loaded by /etc/ld.so.preload, answers programs that ask for the
    time; those that already run and static ones still see the true time, and so does chrony's view of the kernel.
    """
    return faults.Clock(seconds)


command.add_command(drill, "drill")

if __name__ == "__main__":
    main(command, NAME)
