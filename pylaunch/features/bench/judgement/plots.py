"""Rates of pairs as SVG. Pure.

The plot is one `<svg>` without scripts and without references to other files. Names of hosts are escaped. A `note`,
for example that the measurement is incomplete, is a line above the plot.
"""

from collections.abc import Mapping, Sequence
from html import escape

from pylaunch.features.bench.judgement.pairs import Pair

WIDTH = 720
LEFT, TOP = 64, 24
FONT = 11
GLYPH = 0.6
"""Width of a character, relative to the size of its font."""

MOST_CELLS = 64
"""Hosts on one side of the heatmap; of more, the slowest are shown."""


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
