"""`pylaunch check`: would a run work, and if not, why and what to type."""

from __future__ import annotations

import inspect
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options, sync
from pylaunch.cli.flags.shipped_code import modules_not_shipped
from pylaunch.cli.views import document, findings
from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.launch.sync.tree import Tree
from pylaunch.model.cluster import Cluster
from pylaunch.model.finding import Finding, Severity
from pylaunch.model.job import USUAL_PORT, Framework, JobSpec, RankOrder
from pylaunch.model.pasted import taken_apart
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.preflight import suite
from pylaunch.preflight.check import Check
from pylaunch.preflight.result import Result, junit, result
from pylaunch.preflight.selection import select
from pylaunch.preflight.start_table import START_TABLE
from pylaunch.preflight.survey import Wanted
from pylaunch.preflight.wanted import wanted_by

EXAMPLES = """\b
Examples:
  pylaunch check -i cluster.ini
  pylaunch check -i cluster.ini --checkpoint-dir /data/ckpt -- train.py --config base.yaml
  pylaunch check -i cluster.ini --sync . -- train.py
  pylaunch check -i cluster.ini --only storage,python_env.libraries --json
  pylaunch check -i cluster.ini --fix
  pylaunch check --list storage.room
"""


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--list", "listing", is_flag=True, help="List all checks, or explain the ones named, and leave.")
@click.option(
    "--only", metavar="IDS", help="Only these checks or subjects, comma-separated: storage,python_env.python."
)
@click.option("--skip", metavar="IDS", help="Not these checks or subjects.")
@click.option("--deep", is_flag=True, help="Also the checks that load the hosts or take more than a moment.")
@click.option("--nodes", type=int, metavar="N", help="Take the first N hosts.")
@options.rank_order
@click.option("--nproc-per-node", type=int, metavar="N", help="Ranks on each node.  [default: one per device]")
@click.option(
    "--framework",
    type=click.Choice([framework.value for framework in Framework]),
    default=Framework.TORCHRUN.value,
    show_default=True,
    help="Who would start the ranks.",
)
@click.option("--workdir", metavar="DIR", help="Directory on every node to start in.  [default: this directory]")
@sync.options
@click.option("--python", metavar="PATH", help="Interpreter of the ranks.  [default: the provisioned environment]")
@click.option("--port", type=int, help="Rendezvous port on the first node.  [default: any; 29500 is tried]")
@click.option(
    "--file", "files", multiple=True, metavar="FILE", help="A file that must be equal everywhere; repeatable."
)
@click.option("--checkpoint-dir", default="", metavar="DIR", help="Directory that the run writes its checkpoints to.")
@click.option("--infiniband", is_flag=True, help="The run needs InfiniBand or RoCE on every host.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML too.")
@click.option("--fix", "fix", is_flag=True, help="Run the roles that findings name on their hosts, and check again.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@options.as_json
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT [ARGS]...]")
def command(inventory: Path | None, limit: str | None, words: tuple[str, ...], as_json: bool, **asked: Any) -> int:
    """Ask every host whether a run would work, and if not, why and what to type.

    With SCRIPT, also what that run needs: interpreter, libraries, code and files that must be the same everywhere.
    Changes nothing but what --fix shows first. Exit code 3 when something fails.
    """
    if asked["listing"]:
        _show_list(words, asked["only"])
        return ExitCode.DONE
    if asked["yes"] and not asked["fix"]:
        raise UsageError("--yes is for --fix")
    checks = select(
        suite.CHECKS, only=options.words(asked["only"]), skip=options.words(asked["skip"]), deep=asked["deep"]
    )
    pasted = taken_apart(words)
    words = words if pasted is None else pasted.words
    cluster = load_cluster(inventory, limit=limit)
    tree = sync.given(asked)
    plan = plan_run(cluster, _job(words, asked, tree), "check")
    wanted = _wanted(plan, words, asked)
    cluster = replace(cluster, hosts=tuple(node.host for node in plan.nodes))
    found = run_checks(cluster, wanted, checks)
    if asked["fix"]:
        found = _fixed(cluster, wanted, checks, found, sure=asked["yes"])
    if tree is not None and any(check.id == "code.files" for check in checks):
        found = _with_shipped(found, tree, plan)
    if asked["junit_file"] is not None:
        with options.writing("--junit", asked["junit_file"]):
            asked["junit_file"].write_text(junit(found))
    if as_json:
        document.show(findings.as_json(found))
    else:
        _show(found)
    return ExitCode.CLUSTER_NOT_READY if found.failed else ExitCode.DONE


def run_checks(cluster: Cluster, wanted: Wanted, checks: tuple[Check, ...]) -> Result:
    """Ask and judge."""
    begun = time.monotonic()
    survey = suite.take(cluster, wanted, checks)
    return result(survey, checks, suite.judge(survey, checks), time.monotonic() - begun)


def _with_shipped(found: Result, tree: Tree, plan: RunPlan) -> Result:
    """`found`, and what is wrong with the code that would be shipped: it is the same on all hosts."""
    console.say(f"the code is that of {tree.directory}: {sync.described(plan.job.sync)}" if plan.job.sync else "")
    lacking = modules_not_shipped(tree, plan.job.workdir, plan.job.command[0])
    if not lacking:
        return found
    warning = Finding("code.files", Severity.WARN, found.hosts, *sync.told_not_shipped(lacking))
    order = list(Severity)
    ordered = sorted((*found.findings, warning), key=lambda finding: order.index(finding.severity))
    return replace(found, findings=tuple(ordered), checks=tuple(dict.fromkeys((*found.checks, "code.files"))))


def _job(words: tuple[str, ...], asked: dict[str, Any], tree: Tree | None) -> JobSpec:
    framework = Framework(asked["framework"])
    workdir = asked["workdir"] or str(Path.cwd())
    shipped = None
    if tree is not None:
        workdir = sync.workdir(asked["workdir"], tree)
        shipped = sync.as_asked(tree, tuple(asked["sync_exclude"]), tuple(asked["sync_include"]))
        if words and (framework is not Framework.COMMAND or "/" in words[0]):
            sync.check_script(tree, workdir, words[0])
    job = JobSpec(
        command=words or ("",),
        framework=framework,
        workdir=workdir,
        sync=shipped,
        ranks_per_node=asked["nproc_per_node"],
        nodes=asked["nodes"],
        rank_order=RankOrder(asked["rank_order"]),
        python=asked["python"],
        rendezvous_port=asked["port"],
    )
    if tree is None and not job.workdir.startswith("/"):
        raise UsageError(f"--workdir {job.workdir}: expected an absolute path")
    relative = [each for each in asked["files"] if not each.startswith("/")]
    if relative and tree is not None:
        raise UsageError(
            f"--file {relative[0]}: with --sync, files of the tree are the same everywhere; expected an absolute path"
        )
    if relative and not words and not asked["workdir"]:
        raise UsageError(f"--file {relative[0]}: relative paths start at the working directory", hint="--workdir DIR")
    return job


def _wanted(plan: RunPlan, words: tuple[str, ...], asked: dict[str, Any]) -> Wanted:
    """What the run would need; without a script, only what was named."""
    wanted = wanted_by(
        plan,
        files=asked["files"],
        checkpoint_dir=asked["checkpoint_dir"],
        infiniband=asked["infiniband"],
    )
    port: dict[str, Any] = {"port": asked["port"] or USUAL_PORT, "any_port": asked["port"] is None}
    if words:
        # What is shipped needs no comparison; files of the hosts do, and start at "/".
        start = "/" if plan.job.sync is not None and asked["files"] else wanted.workdir
        return replace(wanted, workdir=start, **port)
    return Wanted(
        workdir=(asked["workdir"] if plan.job.sync is None else "") or ("/" if asked["files"] else ""),
        **port,
        devices=wanted.devices,
        pythons=wanted.pythons if asked["python"] else {},
        files=wanted.files,
        checkpoint_dir=wanted.checkpoint_dir,
        infiniband=wanted.infiniband,
        connected=wanted.connected,
        listen_by_name=wanted.listen_by_name,
    )


def _show(found: Result) -> None:
    for line in findings.all_lines(found.findings):
        console.data(line)
    console.say(findings.summary(found), style="red" if found.failed else "green")


def _fixed(cluster: Cluster, wanted: Wanted, checks: tuple[Check, ...], found: Result, *, sure: bool) -> Result:
    """`found` again after what can be mended was, or as it was when there is nothing to mend or nobody wants it."""
    from pylaunch.cli.views import fixing  # noqa: PLC0415 -- it brings all of Ansible, which takes as long as asking three hosts

    plan = fixing.repairs(cluster, found.findings)
    if not plan:
        console.say("no finding names a role that would mend it")
        return found
    for line in findings.all_lines(_with_role(found)):
        console.say(line)
    fixing.show(plan)
    if not sure and not console.confirm("run these roles there?"):
        raise ClusterNotReadyError("nothing was changed") if found.failed else click.Abort()
    fixing.mend(cluster, plan)
    return run_checks(cluster, wanted, checks)


def _with_role(found: Result) -> list[Finding]:
    return [finding for finding in found.findings if finding.role]


def _show_list(words: tuple[str, ...], only: str | None) -> None:
    named = (*words, *options.words(only))
    chosen = select(suite.CHECKS, only=named, deep=True)
    if named:
        console.data("\n\n".join(explained(check) for check in chosen))
        return
    rows = [(check.id, check.severity.value, check.title, check.compares) for check in chosen]
    console.table(("id", "severity", "title", "compares"), rows)


def explained(check: Check) -> str:
    """All that is known of a check."""
    when = "only with --deep" if check.deep else "by pylaunch check"
    row = START_TABLE[check.id]
    return inspect.cleandoc(
        f"""
        {check.id}: {check.title}
          why       {check.why}
          compares  {check.compares}
          severity  at worst {check.severity.value}
          asked     {when}
          at start  {row.at_start.value}: {row.why}
        """
    )
