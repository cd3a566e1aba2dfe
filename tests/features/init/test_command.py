"""Files that exist, and the next steps."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.init import command
from pylaunch.features.init.sources import NamedHosts
from pylaunch.model.cluster import Host


def test_a_file_that_exists_leads_to_the_page_about_further_hosts(tmp_path: Path) -> None:
    (tmp_path / "cluster.ini").touch()
    with pytest.raises(UsageError, match="nothing is replaced") as refused:
        command.refuse(tmp_path / "cluster.ini", NamedHosts((Host("n1", "n1"),)))
    assert refused.value.hint == "to add hosts to it: pylaunch help add-or-replace-a-node"


@pytest.mark.parametrize(
    ("script", "has_python", "steps"),
    [
        ("other.py", False, ["pylaunch start --workdir / -- hostname"]),
        ("train.py", True, ["pylaunch start --sync . -- train.py"]),
        ("train.py", False,
         ["pylaunch provision --roles python_env    # or your own: pylaunch_python= in the inventory",
          "pylaunch start --sync . -- train.py"]),
    ],
)  # fmt: skip
def test_the_next_steps_run_in_the_directory_as_it_is(
    script: str, steps: list[str], tmp_path: Path, *, has_python: bool
) -> None:
    (tmp_path / script).touch()
    assert command.next_steps(tmp_path, has_python=has_python) == steps
