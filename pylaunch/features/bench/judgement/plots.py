"""Results as SVG: bandwidth over size, rates of pairs, distribution of latency. Pure.

Each plot is one `<svg>` without scripts and without references to other files. Names of hosts are escaped. A `note`,
for example that the measurement is incomplete, is a line above the plot.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from pylaunch.features.bench.judgement.pairs import Pair
from pylaunch.model.text.size import shown_size

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 24, 40
FONT = 11
GLYPH = 0.6
"""Width of a character, relative to the size of its font."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Distinct also for colour-blind readers (Okabe and Ito)."""

MOST_CELLS = 64
"""Hosts on one side of the heatmap; of more, the slowest are shown."""

Curve = Sequence[tuple[float, float]]


def bandwidth_plot(curves: Mapping[str, Curve], note: str = "") -> str:
    """Return bus bandwidth (GB/s, more than 0) over size (bytes) of each collective, both logarithmic."""
    sizes = [size for curve in curves.values() for size, _ in curve]
    rates = [rate for curve in curves.values() for _, rate in curve]
    x = _Scale(min(sizes), max(sizes), LEFT, WIDTH - RIGHT)
    y = _Scale(min(rates), max(rates), HEIGHT - BOTTOM, TOP)
    parts = [_text(x.at(size), HEIGHT - 18, shown_size(int(size)), "middle") for size in _some(sorted(set(sizes)), 7)]
    parts += [line for rate in _decades(min(rates), max(rates)) for line in _rule(y.at(rate), f"{rate:g} GB/s")]
    for curve, colour in zip(curves.values(), COLOURS, strict=False):
        points = " ".join(f"{x.at(size):.1f},{y.at(rate):.1f}" for size, rate in curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts += _legend(list(curves))
    return _svg("bus bandwidth over size", parts, HEIGHT, note)


def latency_plot(samples: Mapping[str, Sequence[float]], note: str = "") -> str:
    """Return the share of messages that took at most so many microseconds; `samples` are sorted seconds."""
    least = min(values[0] for values in samples.values()) * 1e6
    most = max(values[-1] for values in samples.values()) * 1e6
    x = _Scale(least, most, LEFT, WIDTH - RIGHT)
    parts = [_text(x.at(each), HEIGHT - 18, f"{each:g} us", "middle") for each in _decades(least, most)]
    for share in (0.0, 0.5, 0.99):
        parts += _rule(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), f"{share:.0%}")
    for values, colour in zip(samples.values(), COLOURS, strict=False):
        last = max(1, len(values) - 1)
        points = " ".join(
            f"{x.at(value * 1e6):.1f},{HEIGHT - BOTTOM - index / last * (HEIGHT - BOTTOM - TOP):.1f}"
            for index, value in enumerate(values)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts += _legend(list(samples))
    return _svg("share of messages that took at most so long", parts, HEIGHT, note)


def pair_heatmap(hosts: Sequence[str], rates: Mapping[Pair, Sequence[float]], note: str = "") -> str:
    """Return the lowest rate of each pair, relative to the median of all; pairs that were not measured are empty."""
    lowest = {pair: min(values) for pair, values in rates.items() if values}
    middle = sorted(lowest.values())[len(lowest) // 2]
    shown = _shown(len(hosts), lowest)
    side = max(6.0, min(28.0, 520 / len(shown)))
    place = {node: index for index, node in enumerate(shown)}
    parts = []
    for (first, second), rate in lowest.items():
        if first in place and second in place:
            share = rate / middle if middle > 0 else 0.0
            title = escape(f"{hosts[first]} and {hosts[second]}: {rate:.3f} GB/s, {share:.0%} of the median")
            for row, column in ((first, second), (second, first)):
                parts.append(
                    f'<rect x="{LEFT + 30 + place[column] * side:.1f}" y="{TOP + place[row] * side:.1f}" '
                    f'width="{side - 1:.1f}" height="{side - 1:.1f}" fill="{_shade(share)}">'
                    f"<title>{title}</title></rect>"
                )
    font = min(FONT, side)
    fits = int((LEFT + 24) / (GLYPH * font))
    for node, index in place.items():
        parts.append(_text(LEFT + 24, TOP + (index + 0.8) * side, _label(hosts[node], fits), "end", font))
    return _svg("rates of pairs relative to the median", parts, TOP + len(shown) * side + 20, note)


def _label(name: str, most: int) -> str:
    """Return the end of a long name, which distinguishes hosts; the cells have the whole one."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _shown(count: int, lowest: Mapping[Pair, float]) -> list[int]:
    """Return the nodes with the lowest rates, in rank order."""
    if count <= MOST_CELLS:
        return list(range(count))
    level: dict[int, list[float]] = {}
    for pair, rate in lowest.items():
        for node in pair:
            level.setdefault(node, []).append(rate)
    ranked = sorted(level, key=lambda node: sorted(level[node])[len(level[node]) // 2])
    return sorted(ranked[:MOST_CELLS])


def _shade(share: float) -> str:
    """Return dark red for 0, up to light blue for 1 and more."""
    share = min(1.0, share)
    low, high = (178, 24, 43), (209, 229, 240)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


class _Scale:
    """Logarithmic axis."""

    def __init__(self, least: float, most: float, begin: float, end: float) -> None:
        self._low = math.log(max(least, 1e-12))
        self._span = max(math.log(max(most, 1e-12)) - self._low, 1e-9)
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log(max(value, 1e-12)) - self._low) / self._span
        return self._begin + share * (self._end - self._begin)


def _decades(least: float, most: float) -> list[float]:
    first, last = math.ceil(math.log10(least) - 1e-9), math.floor(math.log10(most) + 1e-9)
    found = [10.0**power for power in range(first, last + 1)]
    return found or [least, most]


def _some(values: list[float], most: int) -> list[float]:
    step = max(1, math.ceil(len(values) / most))
    return values[::step]


def _rule(y: float, label: str) -> list[str]:
    return [
        f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>',
        _text(LEFT - 6, y + 4, label, "end"),
    ]


def _legend(names: list[str]) -> list[str]:
    parts = []
    for index, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        y = TOP + 16 * index
        parts.append(f'<rect x="{WIDTH - RIGHT + 10}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 26, y, name, "start"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, font: float = FONT) -> str:
    size = "" if font == FONT else f' font-size="{font:.1f}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{size}>{escape(text)}</text>'


def _svg(title: str, parts: list[str], height: float, note: str) -> str:
    body = "\n".join((*_noted(note), *parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="{FONT}" role="img" aria-label="{escape(title)}">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<title>{escape(title)}</title>\n{body}\n</svg>\n'
    )


def _noted(note: str) -> list[str]:
    """Return `note` as one line above the plot, cut where it does not fit, and whole for a reader that points at it."""
    if not note:
        return []
    fits = int(WIDTH / (GLYPH * FONT)) - 2
    shown = note if len(note) <= fits else f"{note[: fits - 1]}…"
    text = f'<text x="{FONT}" y="12" text-anchor="start" fill="#b2182b">{escape(shown)}</text>'
    return [f"<g>{text}<title>{escape(note)}</title></g>"]
