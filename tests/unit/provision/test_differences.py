from __future__ import annotations

from pylaunch.provision.differences import FileDifference, line_difference


def test_lines_that_come_and_go_are_counted_without_the_names_of_the_files() -> None:
    difference = line_difference("role", "/etc/a", "one\ntwo\nthree\n", "one\n2\nthree\nfour\n")
    assert difference is not None
    assert difference.count == "+2 -1"
    assert difference.lines[:2] == ("--- /etc/a", "+++ /etc/a")


def test_a_file_that_is_missing_is_all_new() -> None:
    difference = line_difference("role", "/etc/a", None, "one\n")
    assert difference == FileDifference("role", "/etc/a", ("--- /dev/null", "+++ /etc/a", "@@ -0,0 +1 @@", "+one"))


def test_where_only_the_mode_is_wrong_no_lines_differ() -> None:
    assert line_difference("role", "/etc/a", "one\n", "one\n") is None
