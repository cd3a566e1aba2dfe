"""The command that answers the next question about an error."""

import pytest

from pylaunch.features.explain.judgement.errors.error_form import ErrorWeight, error_form
from pylaunch.features.explain.judgement.errors.error_kinds import ErrorKind, next_step
from pylaunch.features.explain.judgement.errors.first_error import FirstError, of_run
from pylaunch.verdict.logs.evidence import EvidenceLine


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: the processes of a multi-GPU run share one sampler", ErrorKind.PROGRAM),
        ("orbit.ScopeShapeError: (1, 2) (https://orbit.io/e.html)", ErrorKind.LIBRARY),
        ("Error: failed to run plan --rdzv_endpoint=n1:29501 on n1", ErrorKind.PROGRAM),
        ("Could not register plugin: rpc error: code = Unimplemented desc = unknown service", ErrorKind.PROGRAM),
        ("Execution of replica 0 failed: Resource exhausted: Ou", ErrorKind.MEMORY),
        ("[n1:00823] *** Process received signal ***", ErrorKind.PROCESS),
        ("RuntimeError: connect to n1 failed", ErrorKind.NETWORK),
    ],
)
def test_values_options_and_addresses_of_documents_do_not_say_what_a_line_is_about(text: str, kind: ErrorKind) -> None:
    form = error_form(text)
    assert form is not None
    assert form.kind is kind


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
