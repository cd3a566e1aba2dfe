"""Start of Python in a rank: run the next sitecustomize, then serve the agent's questions from one thread.

The directory of this file leads PYTHONPATH of a rank. It leaves `sys.path` here, so that the script's own sitecustomize
runs as if this one did not exist. A thread starts only if PYLAUNCH_RANK_SOCKET names the socket of the rank, in at most
PROCESSES Python processes of the rank: a launcher and what it starts. Workers of multiprocessing and of torch's
compiler start none.
"""

import os
import sys
import time

VARIABLE = "PYLAUNCH_RANK_SOCKET"
PROCESSES = 4

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


if __name__ == "sitecustomize":
    try:
        run_next()
    finally:
        serve()
