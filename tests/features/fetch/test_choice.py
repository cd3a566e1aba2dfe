"""Places here for the files of nodes."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.fetch.places import LONGEST_NAME, NodeFile, choose_files, place_of, refuse_patterns


def file(path: str, size: int = 1, inode: int = 7) -> NodeFile:
    return NodeFile(path, size, 1_780_000_000_000_000_000, inode)


@pytest.mark.parametrize("pattern", ["", "/etc/passwd", "../*", "a/../../b", "a\0b"])
def test_a_pattern_stays_in_the_working_directory(pattern: str) -> None:
    with pytest.raises(UsageError, match="expected a path below the working directory"):
        refuse_patterns(["ckpt/*.pt", pattern])


def test_dots_within_names_are_no_way_out() -> None:
    refuse_patterns(["..ckpt/*.pt", "a..b/**", "[ab]?.pt"])


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a//x", "a/./x", "a/..", ".", "", "x" * LONGEST_NAME, "/".join("a" * 65)]
)
def test_a_path_of_a_node_that_leads_out_or_is_too_long_is_refused(path: str) -> None:
    assert place_of(path) is None
    chosen, refused = choose_files({"n1": [file(path)]})
    assert (chosen, len(refused)) == ([], 1)


def test_a_node_cannot_take_the_place_of_a_file_of_another_one() -> None:
    differing = {"n1": [file("state")], "n2": [file("state", inode=8), file("n1/state")]}
    chosen, refused = choose_files(differing)
    assert [(each.host, each.place) for each in chosen] == [("n1", ("n1", "state")), ("n2", ("n2", "state"))]
    assert refused == ["n2: n1/state: not a name for a file here, or another file has its place"]
    assert choose_files({"n1": [file("a"), file("a", size=2)]})[1] != []
    assert place_of("ckpt/.rank0.pt.5-7.part") is None


def test_names_that_are_refused_are_one_line_for_each_node() -> None:
    _, refused = choose_files({"n1": [file(f"../{number}") for number in range(1000)]})
    assert refused == ["n1: ../0 and 999 more: not a name for a file here, or another file has its place"]


def test_names_get_no_control_characters_here() -> None:
    assert place_of("a\x1b[2J/b\nc/\udcff\u202e") == (r"a\x1b[2J", r"b\nc", r"\xff\u202e")


def test_a_file_of_a_shared_file_system_is_fetched_once() -> None:
    shared = {"n1": [file("a", 5 << 20)], "n2": [file("a", 5 << 20)]}
    (only,), _ = choose_files(shared)
    assert (only.host, only.others, only.place) == ("n1", ("n2",), ("a",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (file("ckpt/a", 5 << 20), file("ckpt/a", 5 << 20, inode=8)),
        (file("ckpt/a", 5 << 20), file("ckpt/a", 6 << 20)),
    ],
)
def test_files_that_differ_get_a_directory_for_each_host(one: NodeFile, other: NodeFile) -> None:
    chosen, _ = choose_files({"n1": [one], "n2": [other], "n3": [file("alone")]})
    assert [each.place for each in chosen] == [("n1", "ckpt", "a"), ("n2", "ckpt", "a"), ("alone",)]
