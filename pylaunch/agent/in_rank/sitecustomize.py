"""Start of Python in a rank: run the next sitecustomize, then serve the agent's questions from one thread.

The directory of this file leads PYTHONPATH of a rank. It leaves `sys.path` here, so that the script's own sitecustomize
runs as if this one did not exist. A thread starts only if PYLAUNCH_RANK_SOCKET names the socket of the rank, in at most
PROCESSES Python processes of the rank: a launcher and what it starts. Workers of multiprocessing and of torch's
compiler start none. Where PYLAUNCH_TEMPLATE names a descriptor, the process is the template of the ranks, and this
module returns only in the ranks that it forks. All these processes import large packages without garbage collection.
"""

import os
import sys
import time
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "PYLAUNCH_RANK_SOCKET"
TEMPLATE = "PYLAUNCH_TEMPLATE"
PROCESSES = 4
PACKAGES = frozenset({
    "torch", "torchvision", "torchaudio", "numpy", "scipy", "pandas", "sklearn", "PIL", "matplotlib", "pyarrow",
    "transformers", "datasets", "tokenizers", "safetensors", "accelerate", "deepspeed", "peft", "jax", "jaxlib", "flax",
    "optax", "chex", "einops", "tqdm", "yaml",
})  # fmt: skip
"""Packages whose import does not depend on the rank, and does not change what other imports do."""

WORKERS = (b"multiprocessing", b"compile_worker")
"""Texts in the command lines of processes that a library starts as workers."""


def run_next() -> None:
    """Import the sitecustomize that Python would have found without this one."""
    here = __file__.rpartition("/")[0]
    this = sys.modules.pop("sitecustomize")
    sys.path[:] = [entry for entry in sys.path if entry != here]
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401, PLC0415 -- the next one
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this  # The import of this module expects its entry.


def load(name: str) -> dict:  # type: ignore[type-arg]  # this file runs on Python 3.8
    """Return the names that the module `name` beside this file defines. `sys.modules` does not get an entry."""
    names = {"__name__": f"pylaunch.agent.in_rank.{name}"}
    exec(__spec__.loader.get_code(name), names)  # type: ignore[union-attr]
    return names


class LargePackages:
    """First finder of sys.meta_path, for imports of PACKAGES without garbage collection."""

    def __init__(self) -> None:
        self._main = get_ident()
        self._pauses: Any = None

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the spec that the other finders find, or None. A thread must not pause for all others."""
        if target is not None or name.partition(".")[0] not in PACKAGES or get_ident() != self._main:
            return None
        if self._pauses is None:
            try:
                self._pauses = load("imports_without_gc")["Pauses"](self)
            except (ImportError, OSError):
                sys.meta_path.remove(self)
                return None
        return self._pauses.spec(name, path, target)


def serve() -> None:
    """Answer questions at the first socket of this rank that no other process has."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    try:
        for number in range(PROCESSES):
            if number == 1 and is_worker():
                return
            end = f".{number}" if number else ""
            if serve_at(path + end, path[: -len("sock")] + "stacks" + end):
                return
    except (ImportError, OSError, AttributeError, ValueError, RuntimeError):
        return  # The script must not notice: its node reports the rank without stacks.


def serve_at(path: str, dumps: str) -> bool:
    """Start the thread at this socket. Return False if another process has it."""
    import fcntl  # noqa: PLC0415 -- not needed outside of ranks

    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    stacks = os.open(dumps, flags, 0o600)
    try:
        fcntl.flock(stacks, fcntl.LOCK_EX | fcntl.LOCK_NB)
        load("questions")["Questions"](path, stacks, load).start()
        now = time.time_ns()
        os.utime(stacks, ns=(now, now))
    except BlockingIOError:
        os.close(stacks)
        return False
    except BaseException:
        os.close(stacks)
        raise
    return True


def is_worker() -> bool:
    """Return whether a library has started this process as a worker."""
    with open("/proc/self/cmdline", "rb") as source:
        line = source.read(4096)
    return any(word in line for word in WORKERS)


def become_rank_of_template() -> None:
    """Import and fork as the agent requests, if this process is a template. An error must not run the script."""
    descriptor = os.environ.pop(TEMPLATE, None)
    if descriptor is None:
        return
    is_rank = False
    try:
        load("template")["become_rank"](int(descriptor), __file__.rpartition("/")[0])
        is_rank = True
    finally:
        if not is_rank:
            os._exit(1)


if __name__ == "sitecustomize":
    if sys.implementation.name == "cpython" and sys.version_info >= (3, 8):
        sys.meta_path.insert(0, LargePackages())
    become_rank_of_template()
    try:
        run_next()
    finally:
        serve()
