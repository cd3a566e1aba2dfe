"""The guard that keeps unit tests pure is itself tested."""

import os
import subprocess

import pytest

from tests.conftest import ProcessStartedError


def test_a_unit_test_cannot_start_a_process() -> None:
    with pytest.raises(ProcessStartedError):
        subprocess.run(["true"], check=False)
    with pytest.raises(ProcessStartedError):
        os.fork()
