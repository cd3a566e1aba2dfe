"""Variables and user of a login, which ranks inherit."""

from __future__ import annotations

import grp
import os
import pwd

from pylaunch.agent.probe.readers.hosts.host import mount_of
from pylaunch.agent.probe.registry import reader
from pylaunch.protocol.readings.hosts import LoginReading

COMMUNICATION = (
    "NCCL_", "TORCH", "PYTORCH_", "GLOO_", "TP_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "KMP_", "UCX_", "FI_", "RDMAV_",
    "JAX_", "XLA_", "TF_", "HF_", "ACCELERATE_", "DS_", "DEEPSPEED_", "PYTHON", "LD_", "MALLOC_", "WORLD_SIZE", "RANK",
    "LOCAL_RANK", "MASTER_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "PATH",
)  # fmt: skip
"""Prefixes of variables that change what a rank computes or its communication."""


@reader("login.variables")
def variables(question: None) -> dict[str, str]:
    """Return the variables of a login that affect ranks."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(COMMUNICATION)}


@reader("login.identity")
def identity(question: None) -> LoginReading:
    """Return the user and the home directory of a login."""
    uid = os.getuid()
    user = pwd.getpwuid(uid)
    home = mount_of(user.pw_dir)
    umask = os.umask(0)
    os.umask(umask)
    return {
        "user": user.pw_name,
        "uid": uid,
        "gid": os.getgid(),
        "groups": sorted(f"{group_name(number)}({number})" for number in {os.getgid(), *os.getgroups()}),
        "home": user.pw_dir,
        "home_type": home["type"],
        "home_source": home["source"],
        "umask": f"{umask:04o}",
    }


def group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return "?"
