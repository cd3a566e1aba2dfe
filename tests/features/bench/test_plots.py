"""The plot is a whole SVG document, and names of hosts cannot break out of them."""

from itertools import pairwise
from xml.etree import ElementTree

from pylaunch.features.bench.judgement.plots import MOST_CELLS, pair_heatmap

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def test_a_slow_pair_is_darker_and_hostile_names_are_text() -> None:
    name = '"><script>alert(1)</script>'
    drawn = pair_heatmap(["n1", name, "n3"], {(0, 1): [0.1, 0.2], (0, 2): [1.0], (1, 2): [1.0]})
    assert "<script" not in drawn
    found = parsed(drawn)
    cells = [each for each in found.findall(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert len(cells) == 6
    shades = {str(each.findtext(f"{SVG}title")).partition(":")[0]: each.get("fill", "") for each in cells}
    assert shades[f"n1 and {name}"] < shades["n1 and n3"]


def test_names_fit_beside_their_cells() -> None:
    few, many = ([f"gpu{'x' * 30}{index:02}" for index in range(count)] for count in (4, 60))
    for hosts in (few, many):
        drawn = parsed(pair_heatmap(hosts, {(index, index + 1): [1.0] for index in range(0, len(hosts), 2)}))
        texts = drawn.findall(f"{SVG}text")
        rows = [float(each.get("y", "0")) for each in texts]
        assert all(after - before >= float(texts[0].get("font-size", "11")) - 0.2 for before, after in pairwise(rows))
        labels = [str(each.text) for each in texts]
        assert len(set(labels)) == len(hosts)
        assert all(len(label) < 24 for label in labels)
        assert f"{hosts[0]} and {hosts[1]}" in str(drawn.findtext(f"{SVG}rect/{SVG}title"))


def test_a_large_cluster_shows_its_slowest_nodes() -> None:
    hosts = [f"n{index}" for index in range(200)]
    rates = {(index, index + 1): [0.1 if index == 150 else 1.0] for index in range(0, 200, 2)}
    texts = [each.text for each in parsed(pair_heatmap(hosts, rates)).findall(f"{SVG}text")]
    assert len(texts) == MOST_CELLS
    assert {"n150", "n151"} <= set(texts)
