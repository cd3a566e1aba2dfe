"""Faults of the host, of what ranks run in, and of what earlier runs leave behind."""

import base64
import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from lab.lab import Lab
from lab.node_faults.resource_faults import Stall
from lab.nodes.node import LabNode
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.transport.connections import disconnect
from tests.lab.fault_case import Case

JOB, CHECKPOINTS, ENVIRONMENT, NAMED = "/opt/job", "/srv/checkpoints", "/opt/ranks", "/etc/job.conf"
PACKAGES = f"{ENVIRONMENT}/lib/python3.11/site-packages"
SIX = "import sys\n"
SIX_HASH = base64.urlsafe_b64encode(hashlib.sha256(SIX.encode()).digest()).rstrip(b"=").decode()
ARGUMENTS = (
    "--workdir", JOB, "--python", f"{ENVIRONMENT}/bin/python", "--checkpoint-dir", CHECKPOINTS, "--file", NAMED,
)  # fmt: skip
COMMAND = ("train.py", "--config", "base.yaml")

Inject = Callable[[Lab], AbstractContextManager[None]]


@contextlib.contextmanager
def prepared(lab: Lab) -> Iterator[None]:
    """Every node has a job to be checked for; nothing of it stays."""
    for node in lab:
        node.write(f"{JOB}/train.py", "import model\n\nmodel.fit(steps=100)\n")
        node.write(f"{JOB}/model.py", "def fit(steps):\n    return steps\n")
        node.write(f"{JOB}/base.yaml", "lr: 0.1\nlayers: 12\n")
        node.write(NAMED, "seed = 7\n")
        node.write(f"{PACKAGES}/torch-2.6.0.dist-info/RECORD", "torch/__init__.py,,\n")
        node.write(f"{PACKAGES}/numpy-2.1.0.dist-info/RECORD", "numpy/__init__.py,,\n")
        node.write(f"{PACKAGES}/six-1.17.0.dist-info/RECORD", f"six.py,sha256={SIX_HASH},{len(SIX)}\n")
        node.write(f"{PACKAGES}/six.py", SIX)
        node.write(f"{ENVIRONMENT}/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
        node.run("mkdir", "-p", f"{ENVIRONMENT}/bin", CHECKPOINTS)
        node.run("ln", "-sfn", "/usr/bin/python3", f"{ENVIRONMENT}/bin/python")
    try:
        yield
    finally:
        for node in lab:
            node.run("rm", "-rf", JOB, NAMED, ENVIRONMENT, CHECKPOINTS)


def cluster_of(inventory: Path) -> Cluster:
    """The cluster of a lab, read once for the same text: Ansible takes half a second."""
    return _read(inventory, inventory.read_text())


@functools.lru_cache(maxsize=2)
def _read(inventory: Path, _text: str) -> Cluster:
    return load_cluster(inventory, limit=None)


def relogin(lab: Lab) -> None:
    """Make the next probe log in again: limits and variables are those of the moment of login."""
    disconnect(cluster_of(lab.inventory))


def on(name: str, make: Callable[[LabNode], None], undo: Callable[[LabNode], None], *, login: bool = False) -> Inject:
    """A fault of one node."""

    @contextlib.contextmanager
    def injected(lab: Lab) -> Iterator[None]:
        make(lab[name])
        if login:
            relogin(lab)
        try:
            yield
        finally:
            undo(lab[name])
            if login:
                relogin(lab)

    return injected


def mounted(name: str, where: str, options: str, then: tuple[str, ...] = ()) -> Inject:
    """A small file system lies over a directory."""

    def make(node: LabNode) -> None:
        node.run("mount", "-t", "tmpfs", "-o", options, "fault", where)
        if then:
            node.run(*then, check=False)

    return on(name, make, lambda node: void(node.run("umount", "--lazy", where)))


def void(_: object) -> None:
    """For lambdas whose value nobody wants."""


def moved(name: str, path: str, to: str = "") -> Inject:
    """Something is not where it should be."""
    aside = to or f"{path}.aside"
    return on(name, lambda node: void(node.run("mv", path, aside)), lambda node: void(node.run("mv", aside, path)))


def written(name: str, path: str, text: str, *, mode: str = "0644", login: bool = False) -> Inject:
    """A file that the others do not have."""
    return on(
        name,
        lambda node: node.write(path, text, mode=mode),
        lambda node: void(node.run("rm", "-rf", path)),
        login=login,
    )


def edited(name: str, path: str, text: str, *, login: bool = False) -> Inject:
    """Lines at the end of a file that the others do not have."""

    def make(node: LabNode) -> None:
        # Some nodes have no such file: it is the same to them as an empty one.
        node.run("touch", path)
        node.run("cp", "-p", path, f"{path}.before")
        node.run("tee", "-a", path, stdin=text.encode())

    return on(name, make, lambda node: void(node.run("mv", f"{path}.before", path)), login=login)


def hanging(name: str, where: str) -> Inject:
    """A file system answers nobody."""
    return on(name, Stall(where).inject, Stall(where).undo)


def limited(name: str, limit: str) -> Inject:
    """A login gets a limit."""
    return written(name, "/etc/security/limits.d/zz-fault.conf", f"root {limit}\n", login=True)


FAULTS = (
    Case("disk full", mounted("n2", CHECKPOINTS, "size=64k", ("dd", "if=/dev/zero", f"of={CHECKPOINTS}/x", "bs=4k")),
         "storage.room", ("n2",)),
    Case("no inodes left", mounted("n3", CHECKPOINTS, "nr_inodes=2,size=2g", ("touch", f"{CHECKPOINTS}/x")),
         "storage.room", ("n3",)),
    Case("file system remounted read-only", mounted("n2", CHECKPOINTS, "ro,size=2g"), "storage.writable", ("n2",)),
    Case("file system whose server is gone", hanging("n3", CHECKPOINTS), "storage.writable", ("n3",)),
    Case("checkpoint directory missing on one node", moved("n1", CHECKPOINTS), "storage.writable", ("n1",)),
    Case("working directory missing", moved("n3", JOB), "storage.writable", ("n3",), also=("code.files",)),
    Case("small /dev/shm", mounted("n2", "/dev/shm", "size=16m"), "storage.shared_memory", ("n2",)),
    Case("/dev/shm full", mounted("n1", "/dev/shm", "size=257m", ("fallocate", "-l", "200m", "/dev/shm/x")),
         "storage.shared_memory", ("n1",)),
    Case("256 open files", limited("n2", "- nofile 256"), "limits.files", ("n2",)),
    Case("64 KiB of locked memory", limited("n3", "- memlock 64"), "limits.locked_memory", ("n3",)),
    Case("500 processes", limited("n1", "- nproc 500"), "limits.processes", ("n1",)),
    Case("no Python for the agent", moved("n2", "/usr/bin/python3"), "reach.host", ("n2",)),
    Case("no interpreter for the ranks", moved("n3", f"{ENVIRONMENT}/bin/python"), "python_env.python", ("n3",)),
    Case("another torch", moved("n3", f"{PACKAGES}/torch-2.6.0.dist-info", f"{PACKAGES}/torch-2.5.1.dist-info"),
         "python_env.libraries", ("n3",)),
    Case("one more package", written("n1", f"{PACKAGES}/tqdm-4.67.0.dist-info/RECORD", "tqdm.py,,\n"),
         "python_env.libraries", ("n1",)),
    Case("script edited on one node", edited("n3", f"{JOB}/train.py", "print('debug')\n"), "code.files", ("n3",)),
    Case("script missing", moved("n2", f"{JOB}/train.py"), "code.files", ("n2",)),
    Case("module edited on one node", edited("n1", f"{JOB}/model.py", "# tuned\n"), "code.tree", ("n1",)),
    Case("configuration of the command line edited", edited("n2", f"{JOB}/base.yaml", "lr: 0.2\n"),
         "code.files", ("n2",)),
    Case("named file edited", edited("n3", NAMED, "seed = 8\n"), "code.files", ("n3",)),
    Case("NCCL variable on one node", edited("n2", "/etc/environment", "NCCL_IB_DISABLE=1\n", login=True),
         "login.variables", ("n2",)),
)  # fmt: skip
