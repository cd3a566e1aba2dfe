"""Faults of GPUs, on nodes that have none: stand-ins for the tools print what each fault would make them print.

nvidia-smi's answer is the published one of tests/cases/nvidia_smi_xml, with every number that makes a fault of it ours;
its complaint, its links and the lines of the kernel log are written in the format of the published ones there.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import yaml

from lab.images.recipe import USER
from lab.lab import Lab
from lab.nodes.node import LabNode
from tests.lab.by_hand import launcher, pids
from tests.lab.fault_case import Case
from tests.lab.faults_core import Inject

CASES = Path(__file__).parents[1] / "cases"
ANSWERS = "/usr/local/share/pylaunch-stand-ins"
GPUS = 8

NVIDIA_SMI = f"""\
#!/bin/sh
case "$*" in
"-q -x") exec cat {ANSWERS}/smi ;;
"nvlink --status") exec cat {ANSWERS}/nvlink ;;
esac
"""
DMESG = f"#!/bin/sh\nexec cat {ANSWERS}/dmesg\n"
FAKES = ("/usr/local/bin/nvidia-smi", "/usr/local/bin/dmesg")

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n"
WELL_LOG = "[    4.123456] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  560.35.03\n"
XID = "[    5.000001] NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.\n"

Edit = tuple[str, str]


def _smi(number: int = GPUS, odd: Sequence[Edit] = ()) -> str:
    """Output of nvidia-smi for `number` healthy GPUs; `odd` replaces text of GPU 3."""
    text = str(yaml.safe_load((CASES / "nvidia_smi_xml" / "l4_idle.yaml").read_text())["text"])
    begin, end = text.index("    <gpu id="), text.index("</nvidia_smi_log>")
    well = text[begin:end].replace("<persistence_mode>Disabled", "<persistence_mode>Enabled")
    cards = []
    for index in range(number):
        card = well.replace("00000000:01:00.0", f"00000000:1{index}:00.0").replace("c5533cd4", f"c5533cd{index}")
        card = card.replace("<minor_number>1<", f"<minor_number>{index}<")
        for old, new in odd if index == 3 else ():
            assert old in card, old
            card = card.replace(old, new)
        cards.append(card)
    return text[:begin] + "".join(cards) + text[end:]


def _nvlink(*, down: bool = False) -> str:
    lines = []
    for index in range(GPUS):
        lines.append(f"GPU {index}: NVIDIA L4 (UUID: GPU-c5533cd{index}-5a60-059e-348d-b6d7466932e4)")
        for link in range(4):
            state = "<inactive>" if down and index == 3 and link == 2 else "26.562 GB/s"
            lines.append(f"\t Link {link}: {state}")
    return "\n".join(lines) + "\n"


def _answers(*, smi: str | None = None, nvlink: str | None = None, dmesg: str | None = None) -> dict[str, str]:
    return {"smi": smi or _smi(), "nvlink": nvlink or _nvlink(), "dmesg": WELL_LOG + (dmesg or "")}


@contextlib.contextmanager
def _with_gpus(lab: Lab, odd: dict[str, str]) -> Iterator[None]:
    """Every node has eight GPUs, as far as the tools say; those of n2 are `odd`."""
    try:
        for node in lab:
            for name, text in (odd if node.name == "n2" else _answers()).items():
                node.write(f"{ANSWERS}/{name}", text)
            for path, script in zip(FAKES, (NVIDIA_SMI, DMESG), strict=True):
                node.write(path, script, mode="0755")
        yield
    finally:
        for node in lab:
            node.run("rm", "-rf", *FAKES, ANSWERS)


def _gpus(**odd: str) -> Callable[[Lab], AbstractContextManager[None]]:
    return lambda lab: _with_gpus(lab, _answers(**odd))


@contextlib.contextmanager
def _one_gpu_fewer(lab: Lab) -> Iterator[None]:
    """The inventory promises eight, and n2 shows seven."""
    before = lab.inventory.read_text()
    with _with_gpus(lab, _answers(smi=_smi(GPUS - 1))):
        lab.inventory.write_text(f"{before}\n[cluster:vars]\ndevices=0-7\n")
        try:
            yield
        finally:
            lab.inventory.write_text(before)


@contextlib.contextmanager
def _foreign_process(lab: Lab) -> Iterator[None]:
    """Another user computes on GPU 3 of n2."""
    node = lab["n2"]
    with _process_of(node, USER) as pid:
        reported = f"""</fabric><processes><process_info><pid>{pid}</pid><type>C</type>
            <process_name>python</process_name><used_memory>20000 MiB</used_memory></process_info></processes>"""
        with _with_gpus(lab, _answers(smi=_smi(odd=[("</fabric>", reported)]))):
            yield


@contextlib.contextmanager
def _process_of(node: LabNode, user: str) -> Iterator[int]:
    words = "sleep 600 > /dev/null 2>&1 & echo $! > /tmp/theirs.pid"
    node.run("setsid", "runuser", "-u", user, "--", "sh", "-c", words)
    (pid,) = pids(node, "/tmp/theirs.pid")
    try:
        yield pid
    finally:
        node.run("kill", "-KILL", str(pid), check=False)
        node.run("rm", "-f", "/tmp/theirs.pid")


def _stale_ranks(name: str, before: str = "") -> Inject:
    """A launcher that was started by hand was killed, and its ranks stay. `before` is done before it starts them."""

    @contextlib.contextmanager
    def stale(lab: Lab) -> Iterator[None]:
        with launcher(lab, name, "/tmp/stale", before=before) as (above, _):
            lab[name].run("kill", "-KILL", str(above))
            yield

    return stale


_HOT = [
    (f"<clocks_event_reason_{name}>Not Active", f"<clocks_event_reason_{name}>Active")
    for name in ("hw_slowdown", "hw_thermal_slowdown")
]
_ECC = ("<dram_uncorrectable>0", "<dram_uncorrectable>1")
_LEFTOVER = ("<used>1 MiB", "<used>20001 MiB")
_PENDING = ("<remapped_row_pending>No", "<remapped_row_pending>Yes")

FAULTS: tuple[Case, ...] = (
    Case(
        "7 of 8 GPUs",
        _one_gpu_fewer,
        "gpu.count",
        ("n2",),
        also=("gpu.models",),
        # Rightly found on hosts with devices: nobody may raise this limit in a lab without CAP_SYS_RESOURCE.
        check_arguments=("--skip", "limits.files"),
    ),
    Case("uncorrectable ECC error", _gpus(smi=_smi(odd=[_ECC])), "gpu.memory", ("n2",)),
    Case("memory row waits to be remapped", _gpus(smi=_smi(odd=[_PENDING])), "gpu.memory", ("n2",)),
    Case("another user's process on a GPU", _foreign_process, "gpu.free", ("n2",)),
    Case("GPU memory in use by nobody", _gpus(smi=_smi(odd=[_LEFTOVER])), "gpu.free", ("n2",)),
    Case("Xid 79 in the kernel log", _gpus(dmesg=XID), "gpu.xid", ("n2",)),
    Case("driver and library differ", _gpus(smi=MISMATCH), "gpu.software", ("n2",)),
    Case("NVLink down", _gpus(nvlink=_nvlink(down=True)), "gpu.nvlink", ("n2",)),
    Case("GPU too hot", _gpus(smi=_smi(odd=_HOT)), "gpu.clocks", ("n2",)),
    Case("ranks that a killed launcher left", _stale_ranks("n1"), "leftovers.processes", ("n1",)),
    Case(
        "ranks of a dead run",
        _stale_ranks("n3", "export PYLAUNCH_RUN=deadbeef PYLAUNCH_ROOT=/var/tmp/pylaunch-0"),
        "leftovers.processes",
        ("n3",),
    ),
)
