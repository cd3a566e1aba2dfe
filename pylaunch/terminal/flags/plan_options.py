"""Options that describe a job and its place, of all verbs that plan one as `start` does."""

import click

from pylaunch.model.job import Framework
from pylaunch.terminal import options
from pylaunch.terminal.flags import environment, sync
from pylaunch.terminal.flags.start import AUTO, StartFlags

plan_options = options.together(
    click.option("--nodes", type=int, metavar="N", help="Take the first N hosts; with Slurm, request N nodes."),
    click.option(
        "--nproc-per-node",
        default=StartFlags.nproc_per_node,
        metavar="auto|N",
        show_default=True,
        help="Ranks on each node; auto is one per device of the inventory, or one where it lists none.",
    ),
    click.option(
        "--framework",
        type=click.Choice([AUTO, *(framework.value for framework in Framework)]),
        default=StartFlags.framework,
        show_default=True,
        help="How ranks are started; auto reads what SCRIPT imports, and is command for any other program.",
    ),
    click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m."),
    environment.options,
    sync.options,
    click.option("--workdir", metavar="DIR", help="Directory on every node to start in.  [default: this directory]"),
    click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]"),
    click.option("--port", type=int, help="Rendezvous port on the first node.  [default: one that is free there]"),
    click.option(
        "--interface",
        metavar="NAME",
        help="Network interface of the ranks on every node.  "
        "[default: the inventory's, else by route to the other nodes]",
    ),
)
