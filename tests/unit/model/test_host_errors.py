"""Errors of many hosts are as many lines as there are different errors."""

from pylaunch.model.cluster import Host, SshOptions
from pylaunch.model.diagnosis.host_errors import alike_errors, folded

HOSTS = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}", ssh=SshOptions("root")) for number in range(1, 65))


def no_route(host: Host) -> str:
    return f"ssh root@{host.address}: no route (connect to host {host.address} port 22: No route to host)"


def test_the_same_error_with_the_address_of_each_host_is_one() -> None:
    errors = {host.name: [no_route(host)] for host in HOSTS}
    text = "ssh root@10.0.0.[1-64]: no route (connect to host 10.0.0.[1-64] port 22: No route to host)"
    assert alike_errors(HOSTS, errors) == [("gpu[01-64]", text)]


def test_different_errors_stay_apart_also_in_a_number_or_in_the_address_of_another_host() -> None:
    errors = {
        "gpu01": ["port 29500 is held by pid 4121", "cannot reach 10.0.0.3"],
        "gpu02": ["port 29500 is held by pid 4122", "cannot reach 10.0.0.3"],
        "gpu03": ["cannot reach 10.0.0.4", "10.0.0.30 answers"],
    }
    assert alike_errors(HOSTS, errors) == [
        ("gpu01", "port 29500 is held by pid 4121"),
        ("gpu[01-02]", "cannot reach 10.0.0.3"),
        ("gpu02", "port 29500 is held by pid 4122"),
        ("gpu03", "cannot reach 10.0.0.4"),
        ("gpu03", "10.0.0.30 answers"),
    ]


def test_hints_that_differ_in_the_host_alone_are_one() -> None:
    hints = {f"n{number}": [f"pylaunch trust --limit n{number}"] for number in (1, 2, 3)}

    assert folded(hints) == ("pylaunch trust --limit n[1-3]",)


def test_of_commands_to_try_by_hand_one_is_shown_for_all_hosts() -> None:
    hints = {f"n{number}": [f"try it by hand: ssh -l root -- 10.0.0.{number}"] for number in range(1, 65)}
    hints["n65"] = ["pylaunch trust --limit n65"]
    assert folded(hints) == (
        "n[1-64]: try it by hand: ssh -l root -- 10.0.0.1", "pylaunch trust --limit n65",
    )  # fmt: skip
    assert folded({"n2": hints["n2"]}) == ("try it by hand: ssh -l root -- 10.0.0.2",)
    behind = {host: [f"the key of the jump host; {texts[0]}"] for host, texts in hints.items() if host != "n65"}
    assert folded(behind) == ("the key of the jump host; n[1-64]: try it by hand: ssh -l root -- 10.0.0.1",)
