"""Stacks of threads: the user's own frame, a short text, and phases that are slow in healthy runs. Pure."""

from collections.abc import Iterable
from enum import Enum

from pylaunch.protocol.examination import Frame, RankView, ThreadStack

LIBRARY_PATHS = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")
"""Parts of the paths of installed packages and of the standard library."""


class SlowPhase(Enum):
    """Part of a healthy run that may take minutes on one rank, while others wait for it."""

    COMPILE = "compiling"
    CHECKPOINT = "writing or reading a checkpoint"
    EVALUATION = "evaluating"
    DATA = "loading data"
    DEBUGGER = "at a breakpoint of a debugger"
    INPUT = "waiting for input from a terminal"
    BUILD_LOCK = "waiting for the lock file of an extension's build, which an interrupted build leaves behind"
    """No phase of its own: it takes as long as the build of another process, or for ever."""


PHASE_PATHS = {
    SlowPhase.DEBUGGER: (
        "/pdb.py", "/bdb.py", "/debugpy/", "/pydevd", "/ipdb/", "/pudb/", "/IPython/terminal/debugger",
    ),
    SlowPhase.INPUT: ("/getpass.py", "/code.py", "/cmd.py"),
    SlowPhase.BUILD_LOCK: ("/torch/utils/file_baton.py",),
    SlowPhase.COMPILE: (
        "/torch/_inductor/", "/torch/_dynamo/", "/torch/utils/cpp_extension.py", "/triton/", "/jax/_src/compiler.py",
        "/jax/_src/interpreters/mlir.py", "/jax/experimental/jax2tf", "/numba/core/", "/torch_xla/", "/tvm/",
        "/deepspeed/ops/op_builder/",
    ),
    SlowPhase.CHECKPOINT: (
        "/torch/distributed/checkpoint/", "/torch/serialization.py", "/safetensors/", "/orbax/", "/tensorstore/",
        "/flax/training/checkpoints.py", "/deepspeed/checkpoint/", "/h5py/",
    ),
    SlowPhase.DATA: (
        "/torch/utils/data/", "/datasets/", "/webdataset/", "/tensorflow_datasets/", "/grain/", "/torchdata/",
        "/streaming/base/", "/tokenizers/", "/nvidia/dali/", "/tf_data",
    ),
}  # fmt: skip
"""Parts of module paths, by phase; the first phase that matches a frame from the innermost outwards wins."""

PHASE_FUNCTIONS = {
    SlowPhase.DEBUGGER: ("breakpoint", "set_trace", "wait_for_client"),
    SlowPhase.INPUT: ("getpass", "raw_input"),
    SlowPhase.COMPILE: ("backend_compile", "compile_fx", "warmup_compile"),
    SlowPhase.CHECKPOINT: (
        "save_checkpoint", "_save_checkpoint", "load_checkpoint", "save_pretrained", "save_state", "save_model",
        "save_snapshot", "write_checkpoint",
    ),
    SlowPhase.EVALUATION: (
        "evaluate", "evaluation", "evaluation_loop", "validate", "validation", "run_validation", "eval_step",
        "validation_step", "run_eval", "evaluate_model",
    ),
    SlowPhase.DATA: ("load_batch", "next_batch", "prefetch", "get_batch", "load_data", "load_dataset"),
}  # fmt: skip
"""Names of functions that scripts commonly give these phases."""

TERMINAL_WAITS = frozenset({"n_tty_read", "tty_read"})
"""Kernel functions that wait for a line of a terminal."""

DISTRIBUTED = ("/torch/distributed/distributed_c10d.py", "/jax/experimental/multihost_utils.py")
"""Modules whose functions all ranks call together."""

RPC = "/torch/distributed/rpc/api.py"
"""The same of its function `shutdown`; a decorator of torch is its outermost frame."""

POINT_TO_POINT = frozenset(
    {"send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list", "monitored_barrier"}
)
"""Functions of torch.distributed that leave no entry in gloo's flight recorder."""


AT_EXIT = (("_shutdown", "/threading.py"), ("_exit_function", "/multiprocessing/util.py"))
"""Outermost functions of a main thread that has left the script, and ends of their modules."""

JOINS = frozenset({"init_process_group", "new_group", "new_subgroups", "split_group"})
"""Functions in which ranks wait for others that may still import or download."""


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


def slow_phase(view: RankView) -> SlowPhase | None:
    """Return the phase of the main thread that is slow in healthy runs; None for any other place."""
    if view.wchan in TERMINAL_WAITS:
        return SlowPhase.INPUT
    stack = main_stack(view)
    if stack is None or distributed_call(view):
        return None
    for frame in stack.frames:
        for phase in SlowPhase:
            if any(part in frame.path for part in PHASE_PATHS.get(phase, ())):
                return phase
            if frame.function in PHASE_FUNCTIONS.get(phase, ()):
                return phase
    return None
