"""Modules of the controller use what only Linux has in known places alone: a controller on macOS stays possible.

No test runs on macOS: this guards imports and names, and one contract test starts processes without pidfd.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "pylaunch"
ON_NODES = ("agent", "runtime")
"""Run on nodes."""

ONLY_LINUX = {
    "pidfd_open", "pidfd_send_signal", "epoll", "prctl", "sched_getaffinity", "pipe2", "setns", "unshare",
    "memfd_create", "CLOCK_BOOTTIME",
    "eventfd", "SO_PEERCRED", "splice", "accept4", "CDLL", "sigtimedwait", "PR_SET_PDEATHSIG", "AF_NETLINK",
}  # fmt: skip
KNOWN = {
    "features/containers/flags.py: /proc": "a path in the image",
    "features/containers/flags.py: /sys": "a path in the image",
    "store/runs.py: /proc": "finds a stopped controller; elsewhere none is",
    "transport/process.py: pidfd_open": "falls back to polling; ends another controller of this machine",
    "transport/process.py: pidfd_send_signal": "ends another controller of this machine",
    "transport/guard.py: /proc": "finds an Ansible whose controller was killed",
}


def uses(tree: ast.Module) -> Iterator[str]:
    """Names that only Linux has; paths below /proc and /sys, and abstract sockets, as arguments of calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ONLY_LINUX:
            yield node.attr
        if isinstance(node, ast.ImportFrom):
            yield from (each.name for each in node.names if each.name in ONLY_LINUX)
        if isinstance(node, ast.Call):
            parts = (part for each in (*node.args, *node.keywords) for part in ast.walk(each))
            texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            yield from ("/" + text.split("/")[1] for text in texts if text.startswith(("/proc", "/sys/")))
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("bind", "connect"):
                yield from ("abstract socket" for text in texts if text.startswith("\0"))


def is_of_the_controller(module: Path) -> bool:
    place = module.relative_to(PACKAGE)
    return not str(place).startswith(ON_NODES) and not {"ranks", "on_node", "on_node.py"} & set(place.parts)


def test_what_only_linux_has_is_used_in_known_places() -> None:
    modules = [module for module in PACKAGE.rglob("*.py") if is_of_the_controller(module)]
    assert len(modules) > 200
    found = {
        f"{module.relative_to(PACKAGE)}: {use}" for module in modules for use in uses(ast.parse(module.read_text()))
    }
    assert found == KNOWN.keys()


def test_uses_are_found() -> None:
    source = "import os, select\nselect.epoll()\nopen('/proc/stat')\ns.bind('\\0name')\nfrom os import setns\n"
    assert sorted(uses(ast.parse(source))) == ["/proc", "abstract socket", "epoll", "setns"]
    composed = "open(f'/proc/{pid}/stat')\nos.listdir(path='/sys/class')\ns.connect('\\0' + name)\n"
    assert sorted(uses(ast.parse(composed))) == ["/proc", "/sys", "abstract socket"]
