"""The board of a live run, as it is drawn. To accept a new one: UPDATE_GOLDEN=1 pytest tests/golden."""

from pathlib import Path

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run, replan
from pylaunch.model.run import Event, EventKind, PreviousAttempt
from pylaunch.protocol.progress import RankSigns
from pylaunch.runs.events import LinesWritten, ProgressReported
from pylaunch.terminal.views.board import Board
from tests.golden.files import golden

GOLDEN = Path(__file__).parent / "board.txt"
STARTED = 1000.0


def reading(number: int, step: int, marked: float, total: int = 0) -> ProgressReported:
    """Return the report of node `number`: two ranks at `step`."""
    ranks = (2 * number - 2, 2 * number - 1)
    return ProgressReported(f"gpu{number:02}", [RankSigns(rank, 0, step, marked, total) for rank in ranks])


def board() -> Board:
    hosts = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}") for number in range(1, 4))
    job = JobSpec(("train.py",), Framework.TORCHRUN, "/w", ranks_per_node=2, max_restarts=3)
    return Board(plan_run(Cluster(hosts), job, "7f3a9c01"))


def started(made: Board) -> Board:
    made.add(Event(STARTED, EventKind.RELEASED))
    for node in made.plan.nodes:
        for rank in node.ranks:
            made.add(Event(STARTED, EventKind.RANK_STARTED, node.host.name, rank.rank))
    return made


def stories() -> dict[str, list[str]]:
    """How boards look at some moments, by the name of the moment."""
    shown = {"nobody has answered yet": board().lines(STARTED)}
    going = started(board())
    shown["nothing but ranks is known"] = going.lines(STARTED + 2)
    for number in (3, 1, 2):
        going.add(reading(number, 812, STARTED + 99))
    shown["all are at one step"] = going.lines(STARTED + 100)
    for number in range(1, 4):
        going.add(reading(number, 852, STARTED + 109, total=10_000))
    shown["all are faster, and say how many steps there are"] = going.lines(STARTED + 110)
    going.add(reading(2, 790, STARTED + 60))
    shown["one node is behind"] = going.lines(STARTED + 100)
    going.add(Event(STARTED + 105, EventKind.CONTACT_LOST, "gpu02"))
    shown["one node is out of sight"] = going.lines(STARTED + 105)
    going.add(Event(STARTED + 110, EventKind.STOP_ASKED))
    going.add(Event(STARTED + 110, EventKind.RANK_ENDED, "gpu01", 0))
    shown["the run is being stopped"] = going.lines(STARTED + 4000)
    before = PreviousAttempt("7f3a9c01.0", "gpu02 lost: no heartbeat for 10 s")
    again = started(Board(replan(going.plan, ["gpu01", "gpu03"]), before))
    again.add(ProgressReported("gpu01", [RankSigns(0, 0)]))
    shown["started again, without marks"] = again.lines(STARTED + 7)
    printed = started(board())
    printed.add(LinesWritten("n1", "0.out", "step 811/10000 loss=2.1\nstep 812/10000 loss=2.0\n", STARTED + 99))
    printed.add(LinesWritten("gpu01", "1.err", " 8%|8  | 810/10000 [01:02]\r 8%|8  | 811/10000 [01:02]", STARTED + 98))
    for rank in range(2, 6):
        printed.add(LinesWritten("n1", f"{rank}.out", "loading \x1b[31mshards\x1b]0;title\x07\n", STARTED + 1))
    shown["ranks print lines and mark no steps"] = [*printed.lines(STARTED + 100), *printed.output()]
    return shown


def test_the_board_looks_as_it_did() -> None:
    text = "\n".join("\n".join([f"# {name}", *lines, ""]) for name, lines in stories().items())
    assert text == golden(GOLDEN, text)
