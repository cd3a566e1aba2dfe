"""Batches of hosts for a canary rollout: each batch waits for the one before it. Pure."""

from collections.abc import Sequence

from pylaunch.errors import UsageError


def batches(hosts: Sequence[str], serial: str) -> tuple[tuple[str, ...], ...]:
    """Cut `hosts` into the batches of `serial` ("1,10%,100%"): percentages are of all hosts, the last size repeats.

    Raises UsageError for a size that is neither a number nor a percentage above zero.
    """
    sizes = [_size(word.strip(), len(hosts)) for word in serial.split(",")]
    cut: list[tuple[str, ...]] = []
    begin = 0
    while begin < len(hosts):
        end = begin + sizes[min(len(cut), len(sizes) - 1)]
        cut.append(tuple(hosts[begin:end]))
        begin = end
    return tuple(cut)


def _size(word: str, total: int) -> int:
    number = word.removesuffix("%")
    if not number.isdecimal() or int(number) == 0:
        raise UsageError(
            f"--serial {word}: expected a number of hosts or a percentage", hint="for example: --serial 1,10%,100%"
        )
    return max(1, total * int(number) // 100) if word.endswith("%") else int(number)
