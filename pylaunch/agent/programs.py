"""Whether the programs of a run can start here: on PATH, of the right environment, of the framework that was chosen."""

from __future__ import annotations

import os
import shutil
from typing import Iterator, List

from pylaunch.agent import wire
from pylaunch.agent.essentials import environment_of

FIRST_LINE = 512
"""Bytes of a program that are read to find its interpreter."""

OF_THE_SYSTEM = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
"""What a distribution installs here is no part of any Python environment."""

HARMLESS_PTH = ("distutils-precedence.pth", "_virtualenv.pth")


def problems(task: wire.NodeTask) -> Iterator[wire.Reason]:
    """Why the programs of `task` cannot start, or would start something else."""
    commands = [task.launcher, *(rank.argv for rank in task.ranks)]
    for program in dict.fromkeys(command[0] for command in commands if command and command[0] != wire.RANK_ENTRY):
        path = os.path.join(task.workdir, program) if "/" in program else program
        if "/" in program and not os.path.exists(path):
            if program not in {need.path for need in task.needs}:
                yield wire.Reason("path-missing", f"program {path} does not exist", "")
            continue
        found = shutil.which(path, path=task.env.get("PATH", os.defpath))
        if found is None:
            reason = "is not executable" if "/" in program else f"is not on PATH ({task.env.get('PATH', os.defpath)})"
            yield wire.Reason("not-executable", f"program {path} {reason}", "")
        elif "/" not in program:
            yield from _of_another_environment(task, program, found)
    yield from _launcher_module(task)
    yield from _framework(task)


def _of_another_environment(task: wire.NodeTask, program: str, path: str) -> Iterator[wire.Reason]:
    """A console script imports from the environment it was installed in, whatever the ranks' interpreter is."""
    chosen, python = os.path.dirname(task.python), _python_of(path)
    if not python or os.path.dirname(path) in (chosen, *OF_THE_SYSTEM) or not os.path.exists(task.python):
        return
    if os.path.dirname(python) != chosen:
        text = f"program {program} is not in the environment of the ranks ({chosen}); {path} runs in that of {python}"
        hint = f"install it in {chosen}, choose the other environment with --python {python}, or start {path}"
        yield wire.Reason("program-elsewhere", text, hint)


def _python_of(path: str) -> str:
    """The interpreter that the first line of the program at `path` names, "" for none that is a Python."""
    try:
        with open(path, "rb") as source:
            words = source.readline(FIRST_LINE).decode("utf-8", "replace").split()
    except OSError:
        return ""
    python = words[0][len("#!") :] if words and words[0].startswith("#!/") else ""
    return python if os.path.basename(python).startswith("python") else ""


def _launcher_module(task: wire.NodeTask) -> Iterator[wire.Reason]:
    """torchrun is a module of torch. Only a closed virtual environment is judged: others import from elsewhere, too."""
    if task.launcher[1:2] != ["-m"] or "PYTHONPATH" in task.env:
        return
    python, package = task.launcher[0], task.launcher[2].partition(".")[0]
    packages = _closed_environment(environment_of(python))
    if packages and not any(os.path.isdir(os.path.join(each, package)) for each in packages):
        text = f"{python} has no module {package}, of which {task.launcher[2]} is a part"
        hint = f"install {package} in that environment, or choose another with --python"
        yield wire.Reason("launcher-missing", text, hint)


def _closed_environment(directory: str) -> List[str]:
    """The directories that a virtual environment imports packages from; [] for one that may use others besides."""
    try:
        with open(os.path.join(directory, "pyvenv.cfg"), encoding="utf-8", errors="replace") as source:
            is_closed = "include-system-site-packages=false" in source.read(1 << 16).replace(" ", "").lower()
        library = os.path.join(directory, "lib")
        versions = [each for each in os.listdir(library) if each.startswith("python")]
        packages = [os.path.join(library, each, "site-packages") for each in versions]
        links = [name for each in packages for name in os.listdir(each) if name.endswith(".pth")]
    except OSError:
        return []
    return packages if is_closed and not set(links) - set(HARMLESS_PTH) else []


def _framework(task: wire.NodeTask) -> Iterator[wire.Reason]:
    """auto could not read the program on the controller: under torchrun, other frameworks do not join their ranks."""
    if not task.unread_program:
        return
    from pylaunch.agent.script_framework import choose  # noqa: PLC0415 - ast takes milliseconds, and few runs need it
    from pylaunch.agent.script_imports import read_program  # noqa: PLC0415

    found = choose(read_program(task.workdir, task.unread_program))
    if found is not None:
        text = f"{found.path} uses {found.because}, and torchrun would not make one world of its ranks"
        yield wire.Reason("framework", text, f"--framework {found.framework}, or --framework torchrun to insist")
