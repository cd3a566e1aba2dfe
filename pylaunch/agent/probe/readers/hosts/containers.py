"""Programs, device and namespaces of this host for ranks in a container."""

import os

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import programs
from pylaunch.agent.shared.programs import ENGINE, OPENER
from pylaunch.agent.shared.text import text_or_none
from pylaunch.protocol.readings.hosts import ContainerReading

DEVICE = "/dev/fuse"
SETTINGS = (
    "kernel.apparmor_restrict_unprivileged_userns",
    "kernel.unprivileged_userns_clone",
    "user.max_user_namespaces",
)
"""Kernel settings that decide whether users may make user namespaces. Kernels have only some of them."""

TRIAL_S = 5.0


@reader("containers.engine", 2 * TRIAL_S)
def engine(image: str) -> ContainerReading:
    """Return programs and rights of this login for a container of `image`, and the error of a trial.

    An agent mounts a file in namespaces of its own, in which bubblewrap makes others: so does the trial, without the
    file. It leaves nothing.
    """
    kind = "directory" if os.path.isdir(image) else "file" if os.path.exists(image) else ""
    found = programs.path_of(ENGINE)
    return {
        "image": kind,
        "is_readable": os.access(image, os.R_OK if kind == "file" else os.R_OK | os.X_OK),
        "version": programs.ended([found, "--version"], deadline_s=TRIAL_S).output.strip() if found else "",
        "has_opener": programs.path_of(OPENER) is not None,
        "fuse": _refusal_of_device() if kind == "file" else "",
        "refused": _refusal_of_trial(found, in_own_mounts=kind == "file") if found else "",
        "settings": {key: text_or_none("/proc/sys/" + key.replace(".", "/")) for key in SETTINGS},
    }


def _refusal_of_device() -> str:
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _refusal_of_trial(engine_path: str, *, in_own_mounts: bool) -> str:
    """Return why bubblewrap makes no container of the root directory; "" if it does."""
    words = [engine_path, "--die-with-parent"]
    if in_own_mounts and os.getuid() == 0:
        words = ["unshare", "--mount", *words]
    elif in_own_mounts:
        ids = ["--uid", str(os.getuid()), "--gid", str(os.getgid())]
        words = ["unshare", "--map-root-user", "--mount", *words, "--unshare-user", *ids]
    tried = programs.ended([*words, "--bind", "/", "/", "--", "true"], joined=True, deadline_s=TRIAL_S)
    if tried.status == 0:
        return ""
    return (tried.output.strip().splitlines() or [f"exit status {tried.status}"])[0]
