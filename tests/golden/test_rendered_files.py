"""Files of `pylaunch render` and of jobs, and the words of other tools. UPDATE_GOLDEN=1 pytest tests/golden writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.features.job import rendering
from pylaunch.features.render_files.files import Target
from pylaunch.model.cluster import Cluster, Host
from pylaunch.terminal.other_tools import COMMANDS
from tests.contract.test_rendered_job import JOB
from tests.features.render_files.samples import rendered
from tests.golden.files import golden, refilled

SHOWN = ("cpu", "uneven")
DIRECTORY = Path(__file__).parent / "render"


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("sample", SHOWN)
def test_files_are_as_they_were(sample: str, target: Target) -> None:
    found = rendered(sample, target)
    parts = [f"==> {file.name} <==\n{file.text}" for file in found.files]
    text = "\n".join([*parts, "use:", *found.commands, "remarks:", *found.remarks]) + "\n"
    assert text == golden(DIRECTORY / f"{sample}-{target.value}.txt", text)


def test_there_is_a_page_for_each_sample_and_target_and_no_other() -> None:
    expected = {f"{sample}-{target.value}.txt" for sample in SHOWN for target in Target}
    assert {path.name for path in DIRECTORY.iterdir()} == expected


GOLDEN = Path(__file__).parent / "job.sbatch"


def test_the_script_is_as_it_was_and_accepted_by_shellcheck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tuple(Host(f"n{each}", f"10.0.0.{each}", devices=(0, 1), python="/venv/bin/python") for each in range(4))
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: Cluster(hosts))
    (tmp_path / "job.toml").write_text(JOB)
    options = ("--partition", "gpu", "--time", "4:00:00", "--workdir", "/home/ml/my project")
    run(["render", "slurm", *options, str(tmp_path / "job.toml"), "--set", "server.max-restarts=3"])
    text = capsys.readouterr().out
    assert text == golden(GOLDEN, text)
    for checker in (("bash", "-n"), (str(Path(sys.executable).parent / "shellcheck"),)):
        checked = subprocess.run((*checker, str(GOLDEN)), capture_output=True, text=True, timeout=60, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


PAGE = Path(__file__).parents[2] / "docs/guides/from-torchrun-or-slurm.md"
TABLE = "| typed after `pylaunch` | command |\n|---|---|\n"


def page() -> str:
    """The guide as it should be."""
    typed: dict[str, list[str]] = {}
    for word, command in COMMANDS.items():
        typed.setdefault(command, []).append(f"`{word}`")
    rows = (f"| {', '.join(words)} | `pylaunch {command}` |\n" for command, words in typed.items())
    return refilled(PAGE, TABLE, "".join(rows))


def test_the_guide_has_the_words_of_the_table() -> None:
    expected = page()
    assert expected == golden(PAGE, expected)
