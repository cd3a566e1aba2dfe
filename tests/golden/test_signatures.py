"""The reference of signatures has the entries of the data. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

import pytest

from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.signature import CauseClass, Role, Signature
from tests.golden.files import golden

DIRECTORY = Path(__file__).parents[2] / "docs" / "reference"
CATALOGUE = signatures()

TITLES = {
    "collectives": "Errors in collectives: time-outs, mismatches, lost peers",
    "containers": "Errors of containers: images, runtimes, pyxis, enroot, Kubernetes",
    "endings": "Ends of processes: signals, schedulers, crashes",
    "files": "Errors of files, storage and checkpoints",
    "frameworks": "Errors of DeepSpeed, accelerate, Lightning, Megatron and other frameworks and launchers",
    "gpu": "Errors of GPUs and their driver",
    "infiniband": "Errors of InfiniBand, RoCE and libfabric",
    "jax": "Errors of JAX's coordination",
    "limits": "Errors of limits: memlock, open files, processes",
    "memory": "Errors of memory: GPU, host and /dev/shm",
    "mpi": "Errors of MPI and UCX",
    "nccl": "Errors of NCCL",
    "network": "Errors of addresses, names and interfaces",
    "placement": "Errors of Ray and of placement: resources that no node has",
    "python": "Errors of Python: modules, libraries, exceptions",
    "slurm": "Errors of Slurm: credentials, requests, prologs, nodes",
    "ssh": "Errors of SSH",
    "start": "Errors at the start: rendezvous, ports, missing ranks",
    "waiting": "Last lines of logs that stop without an error",
}

ROLES = """\
A text has a **role**: a *root* may be the cause; a *symptom* is printed because of another rank or node; a *wrapper*
reports an end without a cause; a *warning* counts only where a failure follows, or,
on the page of [waits](errors-waiting.md), where a log ends with it; *benign* text is harmless; *context*
helps to read the others.
"""


KIND = "Kind: [{0}](causes.md#kinds)."


def page(name: str) -> str:
    """The reference of one page as it should be."""
    causes = [each for each in CATALOGUE.causes.values() if each.page == name]
    parts = [
        f"# {TITLES[name]}\n",
        "`pylaunch explain` recognises these causes and texts. This page is generated from its data.\n",
        ROLES,
    ]
    parts += ["## Causes\n", *(cause(each) for each in causes)]
    parts += ["## Texts\n", *(text(each) for each in CATALOGUE.of_page(name))]
    return "\n".join(parts)


def cause(each: CauseClass) -> str:
    fixes = "".join(f"- {fix}\n" for fix in each.fix)
    head = f"### {each.id}\n\nCause: {each.title}. {KIND.format(each.kind)}\n\n"
    return f"{head}To be sure: {each.sure}\n\n    {each.check}\n\nFix:\n\n{fixes}"


def text(each: Signature) -> str:
    named = [cause.id for cause in (each.cause, *each.also) if cause is not None]
    leads = f", {'' if each.also else 'usually '}{' or '.join(named)}" if named else ""
    sources = " ".join(f"[{number}]({source})" for number, source in enumerate(each.sources, 1))
    apart = f"Look-alikes: {each.apart}.\n\n" if each.apart else ""
    said = f"{each.means} ({each.role.value}{leads})."
    return f"### {each.id}\n\n{said}\n\n    {each.example}\n\n{apart}Sources: {sources}\n"


@pytest.mark.parametrize("name", CATALOGUE.pages)
def test_the_reference_of_signatures_has_the_entries_of_the_data(name: str) -> None:
    path = DIRECTORY / f"errors-{name}.md"
    assert page(name) == golden(path, page(name))


def test_every_role_is_explained() -> None:
    assert all(f"*{role.value}*" in ROLES for role in Role)
