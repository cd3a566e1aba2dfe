"""The command that answers the next question about an error."""

import pytest

from pylaunch.features.explain.judgement.errors.error_form import ErrorWeight
from pylaunch.features.explain.judgement.errors.error_kinds import ErrorKind, next_step
from pylaunch.features.explain.judgement.errors.first_error import FirstError, of_run
from pylaunch.verdict.logs.evidence import EvidenceLine


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


def test_the_name_of_a_file_is_one_word_of_the_command() -> None:
    check = next_step(ErrorKind.PROGRAM, "error: x", "logs/a; touch b.log", 30).check
    assert check == "sed -n '10,35p' 'logs/a; touch b.log'"


@pytest.mark.parametrize(
    ("kind", "weight", "rank", "check"),
    [
        (ErrorKind.PROGRAM, ErrorWeight.ERROR, 3, "pylaunch logs 7f3a9c01 --rank 3"),
        (ErrorKind.DEVICE, ErrorWeight.VICTIM, None, "pylaunch logs 7f3a9c01"),
        (ErrorKind.DEVICE, ErrorWeight.ERROR, 3, "nvidia-smi"),
    ],
)
def test_the_logs_of_a_run_are_no_files_here(
    kind: ErrorKind, weight: ErrorWeight, rank: int | None, check: str
) -> None:
    line = EvidenceLine("n2/3.err", 7, "rank 3 on n2", "error: x")
    assert of_run(FirstError(line, kind, weight, "?", "nvidia-smi", rank), "7f3a9c01").check == check
