"""Libraries of NVIDIA's driver for ranks in a container: those of the node, which match its kernel module."""

import os
import re

from pylaunch import protocol
from pylaunch.agent.shared import programs
from pylaunch.agent.shared.essentials import NVIDIA_VERSION
from pylaunch.agent.shared.text import listed
from pylaunch.base.dataclass import replace
from pylaunch.protocol.node_task import MountTask

CUDA = "libcuda.so.1"
LDCONFIG = "/sbin/ldconfig"
IN_CACHE = re.compile(rf"\s{re.escape(CUDA)} \(libc6,[^)]*\) => (\S+)")
"""Line of `ldconfig -p`; that of a 32-bit library has no architecture."""

DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64",
)  # fmt: skip

FILES = re.compile(
    r"lib((cuda|cudadebugger|nvcuvid)\.so\.1"
    r"|nvidia-(ml|ptxjitcompiler|opencl|allocator|cfg|encode|opticalflow)\.so\.1"
    r"|nvidia-(nvvm|gpucomp|pkcs11)[\w-]*\.so\.[\d.]+)"
)
"""Names under which programs and the driver itself open the libraries for computing and video."""

DIRECTORY = "/.nvidia-driver"
"""Place in the container. It is in no directory that an image or a user fills."""

SEARCH_PATH = "LD_LIBRARY_PATH"


def with_driver(task: protocol.NodeTask) -> protocol.NodeTask:
    """Return `task` with the libraries of this node's driver in its container, but those that the user mounts.

    Their directory is last in LD_LIBRARY_PATH, behind those of the user (a forward-compatibility package of an image,
    for example) and before what the image has in its own directories of libraries, which may be of another driver.
    """
    assert task.container is not None
    if not os.path.exists(NVIDIA_VERSION):
        return task
    by_hand = {os.path.basename(mount.target) for mount in task.container.mounts}
    source = _directory()
    paths = {name: os.path.join(source, name) for name in listed(source) if FILES.fullmatch(name)}
    files = [
        MountTask(path, f"{DIRECTORY}/{name}", read_only=True)
        for name, path in paths.items()
        if name not in by_hand and os.path.isfile(path)
    ]
    if not files:
        return task
    path = ":".join(filter(None, (task.env.get(SEARCH_PATH), DIRECTORY)))
    container = replace(task.container, mounts=[*files, *task.container.mounts])
    return replace(task, container=container, env={**task.env, SEARCH_PATH: path})


def _directory() -> str:
    """Return the directory of the driver's libraries, as the loader of this node finds them; "" without one."""
    try:
        cached = IN_CACHE.search(programs.ended([LDCONFIG, "-p"]).output)
    except (OSError, TimeoutError):
        cached = None
    found = [os.path.dirname(cached.group(1))] if cached else []
    return next((each for each in [*found, *DIRECTORIES] if os.path.exists(os.path.join(each, CUDA))), "")
