"""NVIDIA's Xid codes that matter to training: what each means, and what to do. Pure.

Code and name are those of NVIDIA's catalog, the longer ones shortened, and so is the first action. Where the catalog
has a flow of questions for it (45, 48, 74, 144 to 150, 154) or nothing (171, 172), the action is our choice, as kind
and meaning are everywhere. The catalog has more codes.
"""

from enum import Enum

from pylaunch.base.dataclass import dataclass

SOURCE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"


class Action(Enum):
    """First action after the error."""

    NOTHING = "nothing at once"
    APPLICATION = "restart the job"
    RESET = "reset the GPU"
    REBOOT = "restart the machine"
    LINKS = "look at the NVLink errors"


class XidKind(Enum):
    """Effect on the GPU."""

    DAMAGED = "damaged"
    """The GPU cannot be trusted until the action is done."""

    SUSPECT = "suspect"
    """It works; watch it."""

    PROGRAM = "program"
    """Most likely a fault of the program that ran, or a consequence of another Xid."""


@dataclass(frozen=True)
class Xid:
    """Xid code with its meaning and first action."""

    code: int
    name: str
    """The catalog's description or the first of it."""

    kind: XidKind
    action: Action
    meaning: str
    """One sentence for a person whose training failed."""


_NVLINK5 = "An error of a fifth-generation NVLink: its details decide whether a reset is needed"

_TABLE = (
    Xid(13, "Graphics Engine Exception", XidKind.PROGRAM, Action.APPLICATION,
        "A GPU kernel accessed memory that it may not; the hardware is at fault only if the error stays with the GPU"),
    Xid(31, "GPU memory page fault", XidKind.PROGRAM, Action.APPLICATION,
        "A GPU kernel used an unmapped address; the hardware is at fault only if the error stays with the GPU"),
    Xid(43, "GPU stopped processing", XidKind.PROGRAM, Action.NOTHING,
        "The driver ended a program after the program's own error; the GPU works"),
    Xid(45, "Preemptive cleanup, due to previous errors", XidKind.PROGRAM, Action.NOTHING,
        "A consequence of another Xid, or of a killed program"),
    Xid(46, "GPU stopped processing", XidKind.DAMAGED, Action.RESET, "The GPU hangs"),
    Xid(48, "Double Bit ECC Error", XidKind.DAMAGED, Action.RESET,
        "Uncorrectable memory error: results may be wrong; 63 or 64 reports whether it was repaired"),
    Xid(62, "Internal micro-controller halt", XidKind.DAMAGED, Action.RESET, "The GPU's own controller stopped"),
    Xid(63, "GPU memory remapping event", XidKind.SUSPECT, Action.NOTHING,
        "A bad row of memory is replaced at the next reset; until then the job may continue"),
    Xid(64, "GPU memory remapping failure", XidKind.DAMAGED, Action.RESET,
        "A bad row of memory could not be replaced: if the error returns after a reset, replace the GPU"),
    Xid(69, "Graphics Engine class error", XidKind.PROGRAM, Action.APPLICATION, "A program sent an invalid command"),
    Xid(74, "NVLink Error", XidKind.DAMAGED, Action.LINKS,
        "A link between GPUs or to a switch failed; often because a peer fell off the bus (79)"),
    Xid(79, "GPU has fallen off the bus", XidKind.DAMAGED, Action.REBOOT,
        "The machine cannot reach the GPU any more: power, heat, riser or the GPU itself"),
    Xid(92, "High single-bit ECC error rate", XidKind.SUSPECT, Action.NOTHING,
        "Many corrected errors: the memory is wearing out"),
    Xid(94, "Contained memory error", XidKind.SUSPECT, Action.APPLICATION,
        "An uncorrectable memory error affected one program only; other programs and the GPU work"),
    Xid(95, "Uncontained memory error", XidKind.DAMAGED, Action.RESET,
        "Uncorrectable memory error: every program on this GPU may have used the data"),
    Xid(109, "Context Switch Timeout Error", XidKind.DAMAGED, Action.RESET, "The GPU did not switch programs in time"),
    Xid(110, "Security Fault Error", XidKind.DAMAGED, Action.RESET, "A protection mechanism of the GPU was triggered"),
    Xid(119, "GSP RPC Timeout", XidKind.DAMAGED, Action.RESET,
        "The GPU's system processor does not answer the driver: calls into CUDA and nvidia-smi hang"),
    Xid(120, "GSP Error", XidKind.DAMAGED, Action.RESET, "The GPU's system processor failed"),
    Xid(121, "C2C Error", XidKind.SUSPECT, Action.NOTHING,
        "The link between CPU and GPU had errors that were corrected"),
    Xid(136, "Link Training Failed", XidKind.DAMAGED, Action.RESET, "An NVLink did not come up"),
    Xid(137, "NVLink Privilege Error", XidKind.PROGRAM, Action.NOTHING,
        "Forbidden access to a peer's memory: often because the peer's program ended"),
    Xid(140, "ECC Unrecovered Error", XidKind.DAMAGED, Action.RESET, "Uncorrectable memory error"),
    Xid(143, "GPU Initialization Error", XidKind.DAMAGED, Action.RESET, "The GPU did not start"),
    *(Xid(code, f"NVLINK: {unit} Error", XidKind.SUSPECT, Action.LINKS, _NVLINK5)
      for code, unit in ((144, "SAW"), (145, "RLW"), (146, "TLW"), (147, "TREX"), (148, "NVLPW_CTRL"),
                         (149, "NETIR"), (150, "MSE"))),
    Xid(154, "GPU Recovery Action Changed", XidKind.PROGRAM, Action.NOTHING,
        "Reports the action that another Xid needs: `nvidia-smi -q` shows it as GPU Recovery Action"),
    Xid(155, "NVLINK: SW Defined Error", XidKind.DAMAGED, Action.RESET, "The driver disabled an NVLink"),
    Xid(156, "Resource Retirement Event", XidKind.SUSPECT, Action.RESET, "A bad part is disabled after a reset"),
    Xid(157, "Resource Retirement Failure", XidKind.SUSPECT, Action.NOTHING, "A bad part could not be disabled"),
    Xid(158, "GPU Fatal Timeout", XidKind.DAMAGED, Action.RESET, "The GPU hangs"),
    Xid(171, "Uncorrectable DRAM error", XidKind.SUSPECT, Action.NOTHING, "Reports that an error 48 was in the DRAM"),
    Xid(172, "Uncorrectable SRAM error", XidKind.SUSPECT, Action.NOTHING, "Reports that an error 48 was in the SRAM"),
)  # fmt: skip

XIDS = {each.code: each for each in _TABLE}
"""By code."""


def explain(code: int) -> Xid:
    """Return the entry of `code`; a code that is not in the table is a suspect."""
    return XIDS.get(
        code, Xid(code, "not in pylaunch's table", XidKind.SUSPECT, Action.NOTHING, f"See NVIDIA's catalog: {SOURCE}")
    )
