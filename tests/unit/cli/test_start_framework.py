from __future__ import annotations

import pytest

from pylaunch.cli.commands import start
from pylaunch.errors import UsageError
from pylaunch.model.job import Framework


@pytest.mark.parametrize(
    ("asked", "program", "framework"),
    [
        ("auto", "train.py", Framework.TORCHRUN),
        ("auto", "hostname", Framework.COMMAND),
        ("auto", "./run.sh", Framework.COMMAND),
        ("command", "train.py", Framework.COMMAND),
        ("jax", "train.py", Framework.JAX),
    ],
)
def test_auto_goes_by_the_name_of_the_program(asked: str, program: str, framework: Framework) -> None:
    assert start._framework(asked, (program, "--lr", "3")) is framework


def test_a_program_that_is_no_script_is_refused_with_what_to_type() -> None:
    with pytest.raises(UsageError, match="jax starts Python scripts, and hostname does not end in") as caught:
        start._framework("jax", ("hostname", "-f"))
    assert caught.value.hint == "pylaunch start --framework command -- hostname -f"
