"""A hint of a refused command line is accepted as it is typed, until nothing is refused: no hint leads in a circle.

Hinted starts plan (--dry-run) and hinted files are rendered; all other hinted commands are only parsed. Options are
typed into the command line that was refused. In the other files of this directory, the commands of each hint are
parsed (tests/starts/cluster.py).
"""

import re
import shlex

import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode
from tests.hinted_commands import hinted_commands, must_be_accepted
from tests.starts.conftest import as_dry_run

MOST_STEPS = 3
OPTIONS = re.compile(r"^hint: (--.*?)(?:$|;|, | or | \()", re.MULTILINE)
REFUSED = (
    "start",
    "start -m",
    "start -- mpirun -np 3 python mpi.py",
    "start -- mpirun -np 3 python train.py --lr 3",
    "start -- mpirun -np 3 ./a.out 7",
    "start -- srun -n 4 ./a.out",
    "start -- mpiexec -n 4 -x LD_LIBRARY_PATH=/opt/lib python train.py",
    "start -- python mpi.py",
    "start -- torchrun --nproc-per-node 2",
    "start -- torchrun --nnodes 2:4 train.py",
    "start -- torchrun --event-log-handler console train.py",
    "start -- torchrun ./a.out",
    "start -- accelerate launch --num_machines 2 --num_processes 3 train.py",
    "start -- accelerate launch --use_fsdp train.py",
    "start -- deepspeed --autotuning run train.py",
    "start --framework jax -- ./a.out",
    "start --workdir src -- train.py",
    "start --sync-exclude x -- train.py",
    "start --sync . -- nothing.py",
    "start --on-hang restart -- train.py",
    "start --on-hang stop --hang-after off -- train.py",
    "start --fallback -- train.py",
    "start --env 3=4 -- train.py",
    "start --env NOTHING_OF_THAT_NAME -- train.py",
    "start -i cluster.ini -H gpu01 -- train.py",
    "start --nproc 2 -- train.py",
    "render slurm",
    "render torchrun -- ./a.out",
    "render torchrun -- jaxed.py",
    "render slurm --sbatch-arg=--nodes=3 -- train.py",
    "render slurm --force -- train.py",
    "provision --exit-code",
    "env lock --python /usr/bin/python3 requirements.txt",
    "env show",
    "explain nothing.log",
    "stop --all 7f3a",
    "logs 7f3a",
    "help nothing",
    "help inventry",
)


@pytest.mark.usefixtures("in_project")
@pytest.mark.parametrize("line", REFUSED)
def test_a_hint_is_accepted_as_typed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert must_lead_somewhere(line.split(), capsys)


def must_lead_somewhere(words: list[str], capsys: pytest.CaptureFixture[str], steps: int = 0) -> bool:
    """Type `words`; if they are refused, type what the hint says. Return whether they were refused with a hint."""
    planned = words[0] in ("start", "render")
    if not planned and steps:
        must_be_accepted(words)
        return False
    code = main.run(as_dry_run(words) if planned else words)
    error = capsys.readouterr().err
    if code == ExitCode.DONE:
        return False
    assert steps < MOST_STEPS, f"hints lead in a circle: {shlex.join(words)}\n{error}"
    hinted = [each for each in hinted_commands(error) if each[-1] != "--help"]
    hinted += [with_options(words, shlex.split(options)) for options in OPTIONS.findall(error)]
    for each in hinted:
        must_lead_somewhere(each, capsys, steps + 1)
    return "hint: " in error


def with_options(words: list[str], options: list[str]) -> list[str]:
    """Return `words` with the hinted options, which replace those of the same name."""
    end = words.index("--") if "--" in words else len(words)
    before = list(words[:end])
    for option in {each.partition("=")[0] for each in options if each.startswith("--")} & set(before):
        place = before.index(option)
        del before[place : place + 2]
    return [*before, *options, *words[end:]]
