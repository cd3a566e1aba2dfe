"""Progress and result of a push, and their lines for people."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import fold
from pylaunch.model.text.quantity import shown_size


@dataclass(frozen=True)
class Received:
    """Result of one host."""

    error: str | None
    """Why the host does not have the files; None if it has them, read back from its disk with the right hashes."""

    hint: str | None
    is_unreachable: bool
    """The connection to the host failed."""

    had: int
    """Bytes that were there before, from an interrupted push or unchanged."""

    sent: int
    """Bytes that this host got from the controller."""

    seconds: float


@dataclass(frozen=True)
class PushProgress:
    """State of a push while it continues."""

    size: int
    """Bytes that every host gets."""

    average: int
    """Bytes that a host has, on average."""

    whole: tuple[str, ...]
    """Hosts that have all files."""

    hosts: int
    seconds: float

    @property
    def line(self) -> str:
        """The state as text: bytes, rate, hosts that have the files, time left or what hosts do meanwhile."""
        share = self.average / self.size if self.size else 1.0
        rate = self.average / max(self.seconds, 0.001)
        left_s = (self.size - self.average) / rate if rate else 0.0
        if len(self.whole) == self.hosts:
            left = ""
        elif not self.average:
            left = "; hosts look for what they have of it"
        elif self.average >= self.size:
            left = "; hosts read back what they wrote and compare its hashes"
        else:
            left = f", about {left_s:.0f} s left" if left_s < 120 else f", about {left_s / 60:.0f} min left"
        return (
            f"{share:.0%} of {shown_size(self.size)}, {shown_size(int(rate))}/s to each host, "
            f"{len(self.whole)} of {self.hosts} hosts have it{left}"
        )


@dataclass(frozen=True)
class PushResult:
    """Results of all hosts, and the duration."""

    hosts: Mapping[str, Received]
    wrong: Mapping[str, tuple[str, ...]]
    """Hosts from which others received wrong bytes → those others, according to them."""

    seconds: float

    @property
    def remarks(self) -> list[str]:
        """A line for each host from which others report wrong bytes."""
        return [
            f"warning: {name} sent wrong bytes, according to {fold(by)}; they were not kept: check its memory and disk"
            for name, by in self.wrong.items()
        ]
