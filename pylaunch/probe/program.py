"""Build the scripts that hosts run: a function of `pylaunch.agent` with its arguments, and the modules it needs.

The caller passes the function itself, so that mypy checks the arguments and a rename reaches every use. Module names
and imports are read from the function and from the sources; nobody else writes Python source for hosts.
"""

import binascii
import functools
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final, ParamSpec

from pylaunch.agent.probe import runtime
from pylaunch.agent.probe.registry import READERS, reader_of

P = ParamSpec("P")

PACKAGE = "pylaunch"
TRAVELS = re.compile(r"agent\..+|features\.\w+\.on_node(\.\w+)?")
"""Modules with functions for hosts: Python 3.8, standard library and modules of the agent."""

_LOADER = """\
import binascii, gc, json, sys, zlib
gc.disable()
new = type(sys)
for name, source in json.loads(zlib.decompress(binascii.a2b_base64({modules!r}))):
    parent = "pylaunch"
    for part in name.split("."):
        whole = parent + "." + part
        module = sys.modules.setdefault(whole, new(whole))
        setattr(sys.modules.setdefault(parent, new(parent)), part, module)
        parent = whole
    exec(compile(source, name + ".py", "exec"), module.__dict__)
"""

FROM_STDIN: Final = ("-I", "-S", "-")
"""Arguments of the host's Python that runs a script of `program` from stdin, all of which it is."""

_BOOTSTRAP = (
    "import sys; begun = float(open('/proc/uptime').read().split()[0]); "
    "exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
)
STREAMED: Final = ("-I", "-S", "-c", _BOOTSTRAP)
"""Arguments of the host's Python that runs the first message of stdin (`streamed`); the script reads the rest."""


class _Begun(float):
    def __repr__(self) -> str:
        return "begun"


BEGUN: Final = _Begun()
"""Argument of a streamed script: the time at which the host's Python started, in seconds since boot."""


def program(entry: Callable[P, object], /, *arguments: P.args, **keywords: P.kwargs) -> bytes:
    """Return a script that loads the module of `entry` with its imports, and calls `entry` with these arguments.

    Arguments are JSON values, or BEGUN.
    """
    return _script((), entry, arguments, keywords)


def asking(
    questions: Mapping[str, Any], entry: Callable[P, object], /, *arguments: P.args, **keywords: P.kwargs
) -> bytes:
    """Return the `program` of `entry` with the readers that `questions` (reader → question) name."""
    modules = sorted({READERS[reader_of(name)].module.removeprefix(f"{PACKAGE}.") for name in questions})
    return _script(modules, entry, arguments, keywords)


def probe(questions: Mapping[str, Any]) -> bytes:
    """Return a script that prints the readings that `questions` (reader → question) ask for."""
    return asking(questions, runtime.main, dict(questions))


def streamed(script: bytes) -> bytes:
    """Return `script` as the first message for a Python started with STREAMED."""
    return b"%d\n%b" % (len(script), script)


def _script(
    modules: Iterable[str], entry: Callable[..., object], arguments: Iterable[object], keywords: Mapping[str, object]
) -> bytes:  # fmt: skip
    module = _module(entry)
    sources = [(name, _source(name)) for name in needed([*modules, module])]
    words = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in keywords.items())]
    call = f'sys.modules["{PACKAGE}.{module}"].{entry.__qualname__}({", ".join(words)})'
    return f"{_loader(tuple(sources))}\n\n{call}\n".encode()


@functools.cache
def _loader(sources: tuple[tuple[str, str], ...]) -> str:
    """Return the source that loads these modules, which most hosts have in common."""
    packed = zlib.compress(json.dumps(sources).encode())
    return _LOADER.format(modules=binascii.b2a_base64(packed, newline=False))


def _module(function: Callable[..., object]) -> str:
    """Return the module of a function for hosts, as a path below `pylaunch`."""
    module = function.__module__.removeprefix(f"{PACKAGE}.")
    if not TRAVELS.fullmatch(module) or "." in function.__qualname__:
        raise ValueError(f"{function!r} is not a function of a module for hosts")
    return module


def needed(modules: Iterable[str]) -> tuple[str, ...]:
    """Return `modules` and all modules of pylaunch that they import, each after its own imports."""
    return tuple(dict.fromkeys(each for module in modules for each in _with_imports(module)))


@functools.cache
def _with_imports(module: str) -> tuple[str, ...]:
    return (*needed(_imports(module)), module)


_IMPORT = re.compile(r"^from pylaunch(?:\.(\S+))? import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
"""An import that runs when the module is loaded: indented ones are for type checkers."""


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    names: list[str] = []
    for package, several, some in _IMPORT.findall(_source(module)):
        words = [word.strip() for word in (several or some).split(",") if word.strip()]
        names += [
            name if _file(name).is_file() else package for word in words if (name := f"{package}.{word}".strip("."))
        ]
    return tuple(dict.fromkeys(names))


@functools.cache
def _source(module: str) -> str:
    return _file(module).read_text(encoding="utf-8")


def _file(module: str) -> Traversable:
    root = resources.files(PACKAGE)
    *packages, name = module.split(".")
    package = root.joinpath(*packages, name, "__init__.py")
    return package if package.is_file() else root.joinpath(*packages, f"{name}.py")
