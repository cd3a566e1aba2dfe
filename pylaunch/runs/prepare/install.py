"""The agent as one file that any Python ≥ 3.8 runs, the same bytes for the same source, and its installation.

Hosts without it get it through Ansible, one task per host; nodes of a Slurm job from the step that starts its daemon,
so that one without it has no daemon.
"""

import base64
import functools
import hashlib
import io
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ProvisionError
from pylaunch.model.plan import RunPlan
from pylaunch.runs.connect.agent_link import STARTS_S
from pylaunch.store.content import playbook
from pylaunch.transport.runner import PlaybookRun, run_playbook

PACKAGE = f"""\
__version__ = "{__version__}"
import os, sys
__path__ += [place for place in (os.path.join(entry, "pylaunch") for entry in sys.path) if os.path.isdir(place)]
""".encode()
"""The package in the archive. It is on the path of ranks, where a whole pylaunch that is installed stays importable."""

NOT_INSTALLED = ("pylaunch/agent/probe", "pylaunch/agent/piped", "pylaunch/protocol/readings")
"""Directories of programs that the controller pipes to hosts, and of the types of their answers."""

LEVEL = 6
"""Of compression: every start makes the archive, in 14 ms. The lowest level takes 10 ms, for a tenth more."""

EPOCH = (1980, 1, 1, 0, 0, 0)

Install = Callable[[Sequence[str], threading.Event], Mapping[str, str]]
"""Install the agent on hosts, unless the event is set; return the reasons of the hosts on which that failed."""


@dataclass(frozen=True)
class AgentArchive:
    """The bytes of the zipapp, and the name they have on nodes."""

    data: bytes
    version: str
    """The first 16 hex digits of the SHA-256 of `data`."""


@functools.cache
def build() -> AgentArchive:
    """Return the agent of this pylaunch with pylaunch.runtime, for the ranks that it starts; built once."""
    files = {"pylaunch/__init__.py": PACKAGE}
    package = resources.files("pylaunch")  # Not its packages, which that would import.
    for name in ("agent", "base", "protocol", "runtime"):
        files |= dict(_modules(package / name, f"pylaunch/{name}"))
    files["__main__.py"] = files.pop("pylaunch/agent/__main__.py")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, LEVEL)
    return AgentArchive(buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()[:16])


def _modules(directory: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in directory.iterdir():
        inside = f"{name}/{item.name}"
        if item.name.endswith(".py"):
            yield inside, item.read_bytes()
        elif item.is_dir() and inside not in NOT_INSTALLED:
            yield from _modules(item, inside)


def installer(plan: RunPlan, archive: AgentArchive) -> Install:
    """Return the function that installs `archive` on hosts of `plan`."""

    def install(hosts: Sequence[str], unwanted: threading.Event) -> Mapping[str, str]:
        jobs = {name: job for name in hosts if (job := plan.cluster[name].slurm_job) is not None}
        if jobs:
            return {
                name: f"the agent of Slurm job {job} did not start within {STARTS_S} s" for name, job in jobs.items()
            }
        roots = {name: plan.cluster[name].node_root for name in hosts}
        run = PlaybookRun(
            playbook("prepare"),
            plan.cluster.only(hosts),
            extra_vars={
                "pylaunch_agent_archive": base64.b64encode(archive.data).decode(),
                "pylaunch_agent_version": archive.version,
                "pylaunch_agent_roots": roots,
                "pylaunch_agent_pythons": {name: plan.cluster[name].agent_python for name in hosts},
            },
        )
        try:
            result = run_playbook(run, unwanted=unwanted)
        except ProvisionError as error:
            reason = "; ".join((error.message, *error.evidence))
            return dict.fromkeys(hosts, f"the agent could not be installed: {reason}")
        return {
            each.host: f"the agent could not be installed in {roots[each.host]}, by way of /tmp: {each.message}"
            for each in result.failures
        }

    return install
