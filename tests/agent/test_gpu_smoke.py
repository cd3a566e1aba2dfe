"""The program that computes on every GPU, in interpreters that imitate PyTorch."""

from pathlib import Path

from pylaunch.agent.probe.readers.devices import gpu


def interpreter(directory: Path, script: str) -> str:
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_devices_asked_for_are_given_to_the_program_and_its_answer_is_the_reading(tmp_path: Path) -> None:
    python = interpreter(tmp_path, """echo "[{\\"index\\": $4, \\"right\\": true, \\"tflops\\": $3}]" """)
    found = gpu.compute({"python": python, "devices": [3]})
    assert found == {"devices": [{"index": 3, "right": True, "tflops": gpu.SIZE}]}


def test_an_error_of_the_smoke_test_is_reported_verbatim(tmp_path: Path) -> None:
    python = interpreter(tmp_path, "echo 'ModuleNotFoundError: No module named torch' >&2; exit 1")
    found = gpu.compute({"python": python, "devices": [0]})
    assert found == {"error": "exit status 1: ModuleNotFoundError: No module named torch"}
    assert gpu.compute({"python": "/nowhere/python", "devices": [0]}) == {"error": "no interpreter at /nowhere/python"}
