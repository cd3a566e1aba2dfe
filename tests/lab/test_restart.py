"""A restart with a spare, on four real nodes. Ranks are shell scripts."""

from collections.abc import Callable
from pathlib import Path

from lab.lab import Lab
from lab.node_faults.faults import Kill, inject
from pylaunch.errors import ExitCode
from tests.lab.controller import must_be_clean, starting

COMMAND = ("--workdir", "/tmp", "--framework", "command")
PLACE = "echo at attempt $TORCHELASTIC_RESTART_COUNT: $RANK of $WORLD_SIZE via $MASTER_ADDR"
UNTIL_RESTARTED = f"{PLACE}; [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 300; exit 0"


def test_a_node_0_that_loses_power_is_replaced_by_the_spare(fresh_lab: Callable[..., Lab], tmp_path: Path) -> None:
    four = fresh_lab(4)
    options = ("--spares", "1", "--max-restarts", "2")
    with starting(four, tmp_path, *COMMAND, *options, "--", "sh", "-c", UNTIL_RESTARTED) as started:
        started.says("at attempt 0", times=3)
        with inject(four["n1"], Kill()):
            assert started.ends() == ExitCode.DONE, started.stderr
            assert "restart 1 of 2 (n4 in place of n1: lost: " in started.stderr
            again = [line.partition(" | ")[2] for line in started.stdout.splitlines() if "attempt 1" in line]
            address = four["n4"].address
            assert sorted(again) == [f"at attempt 1: {rank} of 3 via {address}" for rank in range(3)]
    must_be_clean(four)
