"""Start of Python in a rank: run the next sitecustomize, then serve the agent's questions from one thread.

The directory of this file leads PYTHONPATH of a rank. It leaves `sys.path` here, so that the script's own sitecustomize
runs as if this one did not exist. A thread starts only if PYLAUNCH_RANK_SOCKET names the socket of the rank, in
the first of its Python processes that is no launcher.
"""

import os
import sys

VARIABLE = "PYLAUNCH_RANK_SOCKET"
LAUNCHERS = {b"pylaunch.runtime.ray_node", b"torch.distributed.run", b"torchrun", b"accelerate", b"deepspeed"}
"""Modules and programs that leave the answers to the process that they start."""


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


def serve() -> None:
    """Answer questions at the socket of this rank, unless another process of it does."""
    path = os.environ.get(VARIABLE)
    try:
        if path is None or is_launcher():
            return
        serve_at(path, path[: -len("sock")] + "stacks")
    except (ImportError, OSError, AttributeError, ValueError, RuntimeError):
        return  # The script must not notice: its node reports the rank without stacks.


def serve_at(path: str, dumps: str) -> None:
    """Start the thread at this socket, unless another process has it."""
    import fcntl  # noqa: PLC0415 -- not needed outside of ranks

    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    stacks = os.open(dumps, flags, 0o600)
    try:
        fcntl.flock(stacks, fcntl.LOCK_EX | fcntl.LOCK_NB)
        load("questions")["Questions"](path, stacks, load).start()
    except BlockingIOError:
        os.close(stacks)
    except BaseException:
        os.close(stacks)
        raise


def is_launcher() -> bool:
    """Return whether this process only starts the one that trains."""
    with open("/proc/self/cmdline", "rb") as source:
        words = source.read(4096).split(b"\0")[1:4]
    return not LAUNCHERS.isdisjoint(word.rpartition(b"/")[2] for word in words)


if __name__ == "sitecustomize":
    try:
        run_next()
    finally:
        serve()
