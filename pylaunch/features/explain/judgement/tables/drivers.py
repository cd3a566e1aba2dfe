"""CUDA of the driver against CUDA of PyTorch: `nvidia-smi`, `torch.version.cuda` and reports of environments. Pure.

Any driver of a major version of CUDA runs programs of all its minor versions
(https://docs.nvidia.com/deploy/cuda-compatibility/), so only a newer major version is a contradiction.
"""

import re
from collections.abc import Iterator, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.features.explain.judgement.tables.devices import gpu_tables
from pylaunch.model.diagnosis.confidence import Confidence

BUILT = LogForm(
    "cuda-of-pytorch",
    ("CUDA used to build PyTorch", "torch.version.cuda", "+cu"),
    re.compile(
        r"\bCUDA used to build PyTorch: (?P<build>\d{1,2}\.\d)\b"
        r"|\btorch\.version\.cuda\b[^\d\n]{0,6}(?P<asked>\d{1,2}\.\d\b)?"
        r"|\b(?:torch|PyTorch)(?:==|-|: | version:? | )\d{1,2}\.\d{1,2}\.\d{1,2}\+cu(?P<wheel>\d{2}\d)\b"
    ),
    follows=1,
    most=8,
)
FORMS = (BUILT,)

_ANSWER = re.compile(r"^['\"]?(?P<cuda>\d{1,2}\.\d)['\"]?$")


@dataclass(frozen=True)
class CudaOf:
    """Version of CUDA that a line shows."""

    version: str
    excerpt: LogExcerpt
    at: int = 0

    @property
    def major(self) -> int:
        """Number before the dot."""
        return int(self.version.partition(".")[0])


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield what each host's driver and PyTorch say together, where the log shows one version of each."""
    drivers: dict[tuple[str, str | None], list[CudaOf]] = {}
    builds: dict[tuple[str, str | None], list[CudaOf]] = {}
    for table in gpu_tables(excerpts):
        if re.fullmatch(r"\d{1,2}\.\d", table.cuda):
            drivers.setdefault(table.excerpt.place, []).append(CudaOf(table.cuda, table.excerpt))
    for line in excerpts.get(BUILT.id, ()):
        builds.setdefault(line.place, []).extend(_built(line))
    for place, found in drivers.items():
        if (driver := _only(found)) is not None and (build := _only(builds.get(place, ()))) is not None:
            yield _compared(driver, build)


def _built(line: LogExcerpt) -> list[CudaOf]:
    groups = line.groups
    if wheel := groups.get("wheel"):
        return [CudaOf(f"{wheel[:-1]}.{wheel[-1]}", line)]
    if known := groups.get("build") or groups.get("asked"):
        return [CudaOf(known, line)]
    answer = _ANSWER.match(line.lines[1].strip()) if len(line.lines) > 1 else None
    return [] if answer is None else [CudaOf(answer["cuda"], line, 1)]


def _only(found: Sequence[CudaOf]) -> CudaOf | None:
    """Return the version if all lines show the same."""
    return found[0] if len({each.version for each in found}) == 1 else None


def _compared(driver: CudaOf, build: CudaOf) -> Indication:
    text = f"the driver supports CUDA {driver.version}, and PyTorch was built for {build.version}"
    others = (driver.excerpt,)
    if build.major > driver.major:
        return Indication("driver-old", text, build.excerpt, build.at, Confidence.MEDIUM, others=others)
    return Indication("driver-old", text, build.excerpt, build.at, contradicts=True, others=others)
