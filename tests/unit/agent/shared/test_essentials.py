import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.agent.shared import essentials


def test_distributions_are_read_from_their_directories_and_normalized(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    for name in ("torch-2.8.0+cu128", "nvidia_nccl_cu12-2.27.3", "Jinja2-3.1.6"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    python = str(tmp_path / "bin" / "python")
    assert essentials.distributions(python) == {"torch": "2.8.0+cu128", "nvidia-nccl-cu12": "2.27.3", "jinja2": "3.1.6"}
    found, installed = essentials.essentials(python)
    assert (found["torch"], found["nccl"], installed["jinja2"]) == ("2.8.0+cu128", "2.27.3", "3.1.6")


def test_a_directory_of_packages_that_cannot_be_read_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest of a conda environment is unknown, too."""
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "lib" / "libpython.so").touch()

    def listed(path: str, listdir: Callable[[str], list[str]] = os.listdir) -> list[str]:
        if path == str(packages):
            raise PermissionError(13, "Permission denied", path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", listed)
    found, installed = essentials.essentials(str(tmp_path / "bin" / "python"))
    assert {found[name].partition(":")[0] for name in ("environment digest", "torch", "nccl")} == {"unreadable"}
    assert installed == {}
