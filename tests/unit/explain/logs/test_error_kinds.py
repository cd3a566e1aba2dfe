"""The command that answers the next question about an error."""

from __future__ import annotations

import pytest

from pylaunch.explain.logs.error_kinds import ErrorKind, next_step


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("[E socket.cpp:957] [c10d] connect() timed out on 10.0.0.1:29500", "nc -vz 10.0.0.1 29500 on"),
        ("dial tcp n2.site:2379: connection refused (client.go:211)", "nc -vz n2.site 2379 on"),
        ("[E socket.cpp:957] [c10d] connect() timed out", "nc -vz ADDRESS PORT on"),
    ],
)
def test_the_address_of_the_line_is_asked_and_no_place_in_a_source(text: str, asked: str) -> None:
    assert next_step(ErrorKind.NETWORK, text, "0.log", 1).check.startswith(asked)
