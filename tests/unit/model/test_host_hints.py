"""A hint for several hosts is printed once."""

from __future__ import annotations

from pylaunch.model.diagnosis.host_hints import folded


def test_hints_that_differ_in_the_host_alone_are_one() -> None:
    hints = {f"n{number}": [f"pylaunch trust --limit n{number}"] for number in (1, 2, 3)}

    assert folded(hints) == ("pylaunch trust --limit n[1-3]",)


def test_what_differs_otherwise_stays_apart_and_a_name_within_another_is_left_alone() -> None:
    hints = {"n1": ["ssh root@10.0.0.1", "look at n1, not at n1x or n1.example"], "n2": ["ssh root@10.0.0.2"]}

    assert folded(hints) == ("ssh root@10.0.0.1", "look at n1, not at n1x or n1.example", "ssh root@10.0.0.2")


def test_a_hint_that_names_no_host_is_printed_once() -> None:
    assert folded({"n1": ["--port 29501"], "n2": ["--port 29501"]}) == ("--port 29501",)


def test_of_commands_to_try_by_hand_one_is_shown_for_all_hosts() -> None:
    hints = {f"n{number}": [f"try it by hand: ssh -l root -- 10.0.0.{number}"] for number in range(1, 65)}
    hints["n65"] = ["pylaunch trust --limit n65"]
    assert folded(hints) == (
        "n[1-64]: try it by hand: ssh -l root -- 10.0.0.1", "pylaunch trust --limit n65",
    )  # fmt: skip
    assert folded({"n2": hints["n2"]}) == ("try it by hand: ssh -l root -- 10.0.0.2",)
