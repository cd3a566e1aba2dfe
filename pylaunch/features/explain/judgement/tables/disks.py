"""Space of file systems and memory of a host: `df`, `df -i` and `free`. Pure."""

import re
from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import OF_A_TABLE, Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence

SHM = "/dev/shm"
SMALL_SHM = 64 << 20
"""Size of /dev/shm in a container without --shm-size."""

LITTLE_MEMORY = 0.03
"""Share of a host's memory that is available shortly before the kernel kills processes."""

DF = LogForm(
    "df",
    ("Mounted on",),
    re.compile(r"^Filesystem {1,80}\S.{0,200} (?P<use>I?Use%|Capacity|%Iused) {1,20}Mounted on$"),
    follows=60,
    most=OF_A_TABLE,
)
DF_ROW = LogForm(
    "df-row",
    ("100% /",),
    re.compile(
        r"^/?[\w.:/@-]{1,200} {1,80}(?:[\w.-]{1,20} {1,20})?(?:[\d.]{1,12}[KMGTPE]?i? {1,20}){3}100% /\S{0,200}$"
    ),
)
FREE = LogForm(
    "free",
    ("buff/cache",),
    re.compile(r"^total {1,20}used {1,20}free {1,20}shared {1,20}buff/cache {1,20}available$"),
    follows=2,
    most=OF_A_TABLE,
)
FORMS = (DF, DF_ROW, FREE)

_ROW = re.compile(
    r"^(?P<device>\S{1,200})? {1,80}(?:[a-z][\w.]{1,20} {1,20})?(?P<size>[\d.]{1,12}[KMGTPE]?)i?"
    r" {1,20}[\d.]{1,12}[KMGTPE]?i?"
    r" {1,20}(?P<left>[\d.]{1,12}[KMGTPE]?)i? {1,20}(?P<percent>\d{1,3})% (?P<mount>/\S{0,200})$"
)
_MEMORY = re.compile(r"^Mem: {1,20}(?P<total>[\d.]{1,15}[KMGTP]?)i? .{0,150} (?P<available>[\d.]{1,15}[KMGTP]?)i?$")
_ALWAYS_FULL = re.compile(r"^/dev/loop|^squashfs|^/dev/sr\d|^udf$|^iso9660|^efivarfs|^ubi\d|^/dev/ubi|^/dev/mtd")
_ALWAYS_FULL_AT = re.compile(
    r"^/snap/|^/var/lib/snapd/|^/media/|^/cdrom|^/mnt/(?:iso|cdrom)|^/sys/|^/nix/store$|^/boot/efi"
)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}


@dataclass(frozen=True)
class FileSystem:
    """Row of `df`."""

    device: str
    mount: str
    size: float
    left: float
    percent: int
    counts_inodes: bool
    excerpt: LogExcerpt
    at: int
    has_units: bool
    """The sizes are bytes; without units their block size is not known."""

    @property
    def is_full(self) -> bool:
        """True if a program that writes to it must fail; images that are only read are always full."""
        is_image = _ALWAYS_FULL.search(self.device) or _ALWAYS_FULL_AT.search(self.mount)
        return self.percent >= 100 and not is_image and self.size > 0


def file_systems(tables: Iterable[LogExcerpt]) -> Iterator[FileSystem]:
    """Yield the rows of tables of `df`, up to the first line that is none."""
    for table in tables:
        inodes, device = table.groups.get("use", "Use%") in ("IUse%", "%Iused"), ""
        for at, line in enumerate(table.lines):
            found = _ROW.match(line)
            if found is not None:
                size, left, percent = _number(found["size"]), _number(found["left"]), int(found["percent"])
                yield FileSystem(found["device"] or device, found["mount"], size, left, percent, inodes, table, at,
                                 has_units=found["size"][-1:].isalpha())  # fmt: skip
            elif at and " " in line.strip() and "% /" not in line and not line.rstrip().endswith("-"):
                break
            device = line.strip()


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield full file systems, which are plain, and signs of a lack of memory."""
    tables = [*excerpts.get(DF.id, ()), *excerpts.get(DF_ROW.id, ())]
    for each in file_systems(tables):
        if each.is_full:
            what = "no inodes are left" if each.counts_inodes else f"{each.percent} % are used"
            cause = "container-shm" if each.mount == SHM else "storage-full"
            sure = Confidence.HIGH if each.left == 0 else Confidence.MEDIUM
            text = f"the file system {each.mount} is full: {what}"
            yield Indication(cause, text, each.excerpt, each.at, sure)
        elif each.mount == SHM and each.has_units and not each.counts_inodes:
            text = f"{SHM} has {each.size / (1 << 20):.0f} MiB"
            yield Indication("container-shm", text, each.excerpt, each.at, contradicts=each.size > SMALL_SHM)
    for table in excerpts.get(FREE.id, ()):
        for at, line in enumerate(table.lines):
            if (found := _MEMORY.match(line)) and (total := _number(found["total"])):
                available = _number(found["available"])
                if available <= LITTLE_MEMORY * total:
                    text = f"{available / total:.0%} of the host's memory is available"
                    yield Indication("host-oom", text, table, at)


def _number(text: str) -> float:
    digits, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    return float(digits) * _UNITS[unit] if digits.count(".") <= 1 and digits.strip(".") else 0.0
