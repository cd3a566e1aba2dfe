"""Variables, user and locale of a login, which ranks inherit."""

from __future__ import annotations

import _locale
import grp
import os
import pwd
import sys

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
    """Return the user, the home directory and the locale of a login."""
    uid = os.getuid()
    user = pwd.getpwuid(uid)
    home = mount_of(user.pw_dir)
    umask = os.umask(0)
    os.umask(umask)
    is_there, encoding = locale_of_login()
    return {
        "user": user.pw_name,
        "uid": uid,
        "gid": os.getgid(),
        "groups": sorted(f"{group_name(number)}({number})" for number in {os.getgid(), *os.getgroups()}),
        "home": user.pw_dir,
        "home_type": home["type"],
        "home_source": home["source"],
        "umask": f"{umask:04o}",
        "locale": os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "",
        "locale_is_there": is_there,
        "encoding": encoding,
    }


def locale_of_login() -> tuple[bool, str]:
    """Return True if the locale in the variables exists on this host, and the encoding of text files with it.

    As `locale` has it, whose import costs a host 8 ms. Other readers of this process keep their locale.
    """
    before = _locale.setlocale(_locale.LC_ALL)
    try:
        _locale.setlocale(_locale.LC_ALL, "")
        is_there = True
    except _locale.Error:  # type: ignore[attr-defined]
        is_there = False
    encoding = "utf-8" if sys.flags.utf8_mode else _locale.nl_langinfo(_locale.CODESET)
    _locale.setlocale(_locale.LC_ALL, before)
    return is_there, encoding


def group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return "?"
