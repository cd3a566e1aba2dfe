"""Merge of layers: what stays, what goes, and entries that no layer should have."""

import pytest

from pylaunch.features.containers import layers
from pylaunch.features.containers.layers import EntryKind, LayerEntry, LayerError, RootDirectory


def entry(word: str) -> LayerEntry:
    """Return the entry of `word`: "a/", "a", "a -> target" or "a = target" of a hard link, "!a" of a device."""
    for sign, kind in ((" -> ", EntryKind.SYMBOLIC_LINK), (" = ", EntryKind.HARD_LINK)):
        path, found, target = word.partition(sign)
        if found:
            return LayerEntry(path, kind, target)
    if word.startswith("!"):
        return LayerEntry(word[1:], EntryKind.IGNORED)
    return LayerEntry(word, EntryKind.DIRECTORY if word.endswith("/") else EntryKind.FILE)


def merged(*of_layers: str) -> dict[str, str]:
    """Return the path → layer and word of a root directory; words are divided by commas."""
    words = [[word.strip() for word in each.split(",")] for each in of_layers]
    root = RootDirectory()
    for each in words:
        root.apply(entry(word) for word in each)
    names, made = root.names()
    found = {path: f"{number}: {words[number][index]}" for (number, index), paths in names.items() for path in paths}
    return found | dict.fromkeys(made, "made")


@pytest.mark.parametrize(
    ("of_layers", "expected"),
    [
        (("a/, a/x", "a/x, a/y"), {"a": "0: a/", "a/x": "1: a/x", "a/y": "1: a/y"}),
        (("a/, a/x, b", "a/.wh.x, .wh.b"), {"a": "0: a/"}),
        (("a/, a/x, a/d/, a/d/y", ".wh.a"), {}),
        (("a/, a/x, a/d/, a/d/y", "a/, a/new, a/.wh..wh..opq"), {"a": "1: a/", "a/new": "1: a/new"}),
        (("a/, a/x", "a/.wh..wh..opq, a/new"), {"a": "0: a/", "a/new": "1: a/new"}),
        (("a/, a/x", "a"), {"a": "1: a"}),
        (("a", "a/, a/x"), {"a": "1: a/", "a/x": "1: a/x"}),
        (("a", "a/x"), {"a": "made", "a/x": "1: a/x"}),
        (("x, y = x", "x"), {"x": "1: x", "y": "0: x"}),
        (("x, y = x", ".wh.x"), {"y": "0: x"}),
        (("x", "y = x"), {"x": "0: x", "y": "0: x"}),
        (("x, x",), {"x": "0: x"}),
        (("x, dev", "!dev"), {"x": "0: x"}),
        (("l -> u/l, u/, u/l/", "l/a"), {"l": "0: l -> u/l", "u": "0: u/", "u/l": "0: u/l/", "u/l/a": "1: l/a"}),
        (("a -> ../../b", "a/x"), {"a": "0: a -> ../../b", "b": "made", "b/x": "1: a/x"}),
        (
            ("b/, b/y, a -> b", "a/, a/.wh..wh..opq, a/x"),
            {"a": "1: a/", "a/x": "1: a/x", "b": "0: b/", "b/y": "0: b/y"},
        ),
        (("a -> /etc, etc/, etc/x", "a/.wh.x"), {"a": "0: a -> /etc", "etc": "0: etc/"}),
        (("/etc/x, ./y, ./",), {"etc": "made", "etc/x": "0: /etc/x", "y": "0: ./y", ".": "0: ./"}),
        (("a, .wh.a",), {"a": "0: a"}),
    ],
)
def test_the_upper_layer_decides_what_is_in_the_root_directory(
    of_layers: tuple[str, ...], expected: dict[str, str]
) -> None:
    assert merged(*of_layers) == expected


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("../x", "'../x' has '..' in its path"),
        ("a/../../x", "has '..' in its path"),
        ("x = ../etc/passwd", "has '..' in its path"),
        ("x = missing", "'x' is a hard link to 'missing', which is no file before it"),
        ("a/, x = a", "which is no file before it"),
        ("a -> b, b -> a, a/x", "'a/x' is behind more than 40 symbolic links"),
        ("n" * 256, "is a name of more than 255 bytes"),
        ("n/" * 2100, "is longer than 4096 bytes"),
        ("n/" * 300, "is in more than 256 directories"),
        ("x -> " + "n" * 5000, "is longer than 4096 bytes"),
    ],
)
def test_an_entry_that_no_layer_should_have_is_refused(word: str, error: str) -> None:
    with pytest.raises(LayerError, match=error):
        merged(word)


def test_more_entries_than_an_image_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_ENTRIES", 2)
    with pytest.raises(LayerError, match="more than 2 entries"):
        merged("a, b", "c")


def test_paths_that_are_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MOST_NAMES", 1 << 20)
    entries = [LayerEntry("/".join(["n" * 200] * 20), EntryKind.DIRECTORY)]
    entries += [LayerEntry(f"{entries[0].path}/{name}", EntryKind.FILE) for name in range(300)]
    root = RootDirectory()
    root.apply(entries)
    with pytest.raises(LayerError, match="more than 1 MiB of paths"):
        root.names()


def test_a_directory_that_is_cleared_often_is_searched_once() -> None:
    root = RootDirectory()
    root.apply([LayerEntry(f"d/{name}", EntryKind.FILE) for name in range(3)])
    root.apply([LayerEntry("d/new", EntryKind.FILE), *[LayerEntry("d/.wh..wh..opq", EntryKind.FILE)] * 300_000])
    assert sorted(path for paths in root.names()[0].values() for path in paths) == ["d/new"]
