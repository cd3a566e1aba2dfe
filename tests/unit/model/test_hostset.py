import re

import pytest

from pylaunch.model.hostset import alike, expand, fold


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n2", "n1", "n3", "x"], "n[1-3],x"),
        (["n1", "n3"], "n[1,3]"),
        (["gpu08", "gpu09", "gpu10"], "gpu[08-10]"),
        (["gpu1", "gpu01"], "gpu01,gpu1"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["a1-ib", "a2-ib"], "a[1-2]-ib"),
        (["rack1n1", "rack1n2", "rack2n1"], "rack1n[1-2],rack2n1"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        (["n1.example.com", "n2.example.com"], "n[1-2].example.com"),
        (["n1", "n1"], "n1"),
    ],
)
def test_hosts_fold_into_ranges_of_their_last_number(hosts: list[str], folded: str) -> None:
    assert fold(hosts) == folded


@pytest.mark.parametrize(
    "hosts",
    [
        ["n1", "n2", "n3", "x"],
        ["gpu07", "gpu08", "gpu09", "gpu10", "gpu11", "gpu100"],
        ["gpu1", "gpu01", "gpu001", "gpu2"],
        ["a1-ib", "a2-ib", "a1-eth"],
        ["n098", "n099", "n100", "n101"],
        ["n1.example.com", "n2.example.com", "head"],
        ["0", "1", "00", "01"],
    ],
)
def test_what_is_folded_expands_to_the_same_hosts(hosts: list[str]) -> None:
    assert sorted(expand(fold(hosts))) == sorted(hosts)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("n1,n1, n2 ,", ("n1", "n2")),
        ("gpu[01-03,07]", ("gpu01", "gpu02", "gpu03", "gpu07")),
        ("gpu[8-11]", ("gpu8", "gpu9", "gpu10", "gpu11")),
        ("gpu[08-11]", ("gpu08", "gpu09", "gpu10", "gpu11")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("z,a", ("z", "a")),
        ("[2001:db8::1]:2222,n[1-2]", ("[2001:db8::1]:2222", "n1", "n2")),
    ],
)
def test_a_text_expands_to_hosts_in_the_order_written(text: str, hosts: tuple[str, ...]) -> None:
    assert expand(text) == hosts


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("n[1", "unbalanced bracket in 'n[1'"),
        ("n1]", "unbalanced bracket in 'n1]'"),
        ("n[]", "in 'n[]'"),
        ("n[a-b]", "in 'n[a-b]'"),
        ("n[3-1]", "range 3-1 counts down in 'n[3-1]'"),
        ("n[1-]", "in 'n[1-]'"),
        ("n[[1]]", "unbalanced bracket"),
        ("n[1-99999999999]", "stands for more than 65536 hosts"),
        ("n[1-999]m[1-999]", "stands for more than 65536 hosts"),
        (",".join(["n[1-65536]"] * 9), "stands for more than 65536 hosts"),
        (f"n[1-{'9' * 5000}]", "4300 digits"),
    ],
)
def test_a_malformed_range_is_refused_with_the_piece(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        expand(text)


def test_equal_things_fold_their_hosts() -> None:
    assert alike({"n1": ["a", "b"], "n2": ["a"]}) == [("n[1-2]", "a"), ("n1", "b")]
