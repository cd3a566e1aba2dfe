"""Stacks of threads: the user's own frame, calls in which ranks wait for each other, and a short text. Pure."""

from collections.abc import Iterable

from pylaunch.protocol.examination import Frame, RankView, ThreadStack

LIBRARY_PATHS = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")
"""Parts of the paths of installed packages and of the standard library."""

DISTRIBUTED = ("/torch/distributed/distributed_c10d.py", "/jax/experimental/multihost_utils.py")
"""Modules whose functions all ranks call together."""

RPC = "/torch/distributed/rpc/api.py"
"""The same of its function `shutdown`; a decorator of torch is its outermost frame."""

POINT_TO_POINT = frozenset(
    {"send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list", "monitored_barrier"}
)
"""Functions of torch.distributed that leave no entry in gloo's flight recorder, and for which not all ranks wait."""

AT_EXIT = (("_shutdown", "/threading.py"), ("_exit_function", "/multiprocessing/util.py"))
"""Outermost functions of a main thread that has left the script, and ends of their modules."""

DEBUGGERS = ("/pdb.py", "/bdb.py", "/debugpy/", "/pydevd", "/ipdb/", "/pudb/", "/IPython/terminal/debugger")
CHILD_WAITS = ("/torch/utils/data/dataloader.py", "/multiprocessing/", "/subprocess.py")
"""Modules in which a thread waits for a process that the rank started."""

PROCESS_STATES = {
    "R": "running",
    "S": "sleeping",
    "T": "stopped (state T: SIGSTOP)",
    "t": "stopped by a debugger (state t)",
    "D": "waiting for a disk, a network file system or a driver (state D)",
    "Z": "a zombie (state Z)",
    "": "gone",
}


def main_stack(view: RankView) -> ThreadStack | None:
    """Return the stack of the main thread; None if it is unknown."""
    return next((thread for thread in view.threads if thread.is_main and thread.frames), None)


def is_own(frame: Frame) -> bool:
    """Return True for a frame of the user's code: neither of an installed package nor of the standard library."""
    return not frame.path.startswith("<frozen") and not any(part in frame.path for part in LIBRARY_PATHS)


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """Return the innermost frame of the user's code."""
    return next((frame for frame in frames if is_own(frame)), None)


def signature(view: RankView) -> tuple[Frame | None, Frame | None]:
    """Return the innermost frame of the user's code and the innermost frame of the main thread."""
    stack = main_stack(view)
    return (None, None) if stack is None else (own_frame(stack.frames), stack.frames[0])


def function_of(view: RankView) -> tuple[str, str] | None:
    """Return function and path of the innermost frame of the user's code, else of the innermost frame.

    It stays the same in a loop that polls, whose lines change. None without a stack.
    """
    own, innermost = signature(view)
    frame = own or innermost
    return None if frame is None else (frame.function, frame.path)


def shown_frame(frame: Frame) -> str:
    """Return "load (data.py:88)"."""
    return f"{frame.function} ({frame.path.rpartition('/')[2]}:{frame.line})"


def shown_place(view: RankView) -> str:
    """Return the place of the main thread, "load (data.py:88), in recv (ssl.py:1)"; "" if it is unknown."""
    own, innermost = signature(view)
    if innermost is None:
        return ""
    if own is None or own == innermost:
        return shown_frame(innermost)
    return f"{shown_frame(own)}, in {shown_frame(innermost)}"


def is_in(view: RankView, paths: Iterable[str]) -> bool:
    """Return True if a frame of the main thread is of one of these modules, given by parts of their paths."""
    stack = main_stack(view)
    return stack is not None and any(part in frame.path for frame in stack.frames for part in paths)


def has_left_script(view: RankView) -> bool:
    """Return True if the main thread is at the end of Python, where it joins threads and children."""
    stack = main_stack(view)
    return stack is not None and any(
        stack.frames[-1].function == function and stack.frames[-1].path.endswith(path) for function, path in AT_EXIT
    )


def distributed_call(view: RankView) -> str:
    """Return the function of `DISTRIBUTED` that the main thread has called, such as "all_reduce"; "" for none."""
    stack = main_stack(view)
    return "" if stack is None else _distributed_call(stack)


def calls_elsewhere(view: RankView) -> bool:
    """Return True if a thread other than the main one has called a function of `DISTRIBUTED`."""
    return any(_distributed_call(thread) for thread in view.threads if not thread.is_main)


def _distributed_call(stack: ThreadStack) -> str:
    called = ""
    for frame in stack.frames:
        if is_own(frame):
            break
        if frame.path.endswith(DISTRIBUTED) or (frame.function == "shutdown" and frame.path.endswith(RPC)):
            called = frame.function
    return called
