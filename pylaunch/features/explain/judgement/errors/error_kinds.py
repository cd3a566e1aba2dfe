"""Kinds of things that an error without a known cause is about, and the question to ask next about each. Pure."""

import re
from enum import Enum

from pylaunch.base.dataclass import dataclass
from pylaunch.model.text.argv import quoted


class ErrorKind(Enum):
    """Thing that an error is about, by the words of its line."""

    LIBRARY = "library"
    PROGRAM = "user code or a library"
    NETWORK = "network"
    FILE = "file"
    DEVICE = "device"
    MEMORY = "memory"
    SCHEDULER = "scheduler"
    CONTAINER = "container"
    PROCESS = "process"


@dataclass(frozen=True)
class NextStep:
    """Question that leads from an error to its cause, and the command that answers it."""

    question: str
    check: str


_STEPS = {
    ErrorKind.PROGRAM: NextStep(
        "Which part of the program printed it, and what did it do right before?", "sed -n '{before},{after}p' {file}"
    ),
    ErrorKind.LIBRARY: NextStep(
        "Which library printed it, in which version, and is the version the same on every node?",
        "python -m pip list on every node; sed -n '{before},{after}p' {file}",
    ),
    ErrorKind.NETWORK: NextStep(
        "Does the address answer from the node that printed the line, and does its owner still run?",
        "nc -vz {address} on that node; ip -br addr",
    ),
    ErrorKind.FILE: NextStep(
        "Is the path there on this node, and may the user of the ranks use it?", "ls -ld {path}; df -h {path}; id"
    ),
    ErrorKind.DEVICE: NextStep(
        "Does the device answer on this node, and has the kernel logged an error of it?",
        "nvidia-smi; dmesg -T | grep -iE 'xid|nvrm|mlx|pcie|hardware error'",
    ),
    ErrorKind.MEMORY: NextStep(
        "Was the memory of the GPU, of the host, of the container or of /dev/shm used up?",
        "nvidia-smi; free -h; df -h /dev/shm; dmesg -T | grep -i 'out of memory'",
    ),
    ErrorKind.SCHEDULER: NextStep(
        "Why did the scheduler or the launcher refuse or end it?",
        "scontrol show job JOBID; sacct -j JOBID --format=JobID,State,ExitCode,Reason,NodeList",
    ),
    ErrorKind.CONTAINER: NextStep(
        "Does the same container start on this node without the job?",
        "on that node, with the same image: podman run --rm IMAGE nvidia-smi (or the engine of the site)",
    ),
    ErrorKind.PROCESS: NextStep(
        "Which process was it, and who or what ended it?", "dmesg -T | tail -n 50; coredumpctl list"
    ),
}
OF_A_VICTIM = NextStep(
    "Another process was gone before: which rank ended first, and what is the first error in its log?",
    "pylaunch explain with the logs of all ranks",
)
OF_A_REPORT = NextStep(
    "The line reports an end: what is the first error in the log of the process that ended?",
    "pylaunch explain with the log of that process",
)
IN_THE_LOG = (ErrorKind.PROGRAM, ErrorKind.LIBRARY)
"""Kinds whose command prints the lines around the error."""

AROUND = 20
"""Lines before an error that its command prints."""

_ADDRESS = re.compile(
    r"\[?(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,6})\]?(?::|<|, ?)"
    r"(?P<port>\d{2,5})\b(?!:\d)"
)
_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".go", ".h", ".hpp", ".java", ".py", ".rs", ".scala", ".yaml")
"""Ends of file names: `socket.cpp:957` is a place in a source, no address."""

_PATH = re.compile(r"(?<![\w.])(?P<path>(?:\.{1,2})?/[\w.@+-]{1,100}(?:/[\w.@+=-]{1,100}){0,30})")


def next_step(kind: ErrorKind, text: str, file: str, line: int) -> NextStep:
    """Return the question about an error of `kind`, with the path or the address that its text names."""
    step = _STEPS[kind]
    address = next((each for each in _ADDRESS.finditer(text) if not each["host"].endswith(_SOURCES)), None)
    path = _PATH.search(text)
    values = {
        "file": quoted((file,)) if file != "stdin" else "LOG",
        "before": str(max(1, line - AROUND)),
        "after": str(line + 5),
        "address": f"{address['host']} {address['port']}" if address else "ADDRESS PORT",
        "path": path["path"] if path else "PATH",
    }
    return NextStep(step.question, step.check.format_map(values))
