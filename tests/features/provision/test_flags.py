import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (["--all"], "--all and --yes are for --reset"),
        (["--yes"], "--all and --yes are for --reset"),
        (["--reset", "--rollback"], "--reset cannot be combined with --rollback or --serial"),
        (["--reset", "--serial", "1"], "--reset cannot be combined with --rollback or --serial"),
        (["--rollback", "--limit", "n1"], "--rollback is for all hosts"),
        (["--serial", "some"], "--serial some: expected a number of hosts or a percentage"),
    ],
)
def test_contradictory_flags_are_refused_before_any_host_is_asked(
    flags: list[str], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["provision", "-i", "/nowhere/cluster.ini", *flags]) == ExitCode.USAGE
    assert refusal in capsys.readouterr().err
