"""`pylaunch bench` with real torch."""

from pathlib import Path

from pylaunch.errors import ExitCode
from pylaunch.features.bench.bench_run import SIZES
from tests.json_pages import documented
from tests.starts.cluster import ended, made_of_directories

ENDS_S = 400.0


def test_every_stage_on_two_nodes(torch_python: Path, tmp_path: Path) -> None:
    cluster = made_of_directories(tmp_path, ("n1", "n2"))
    words = ("bench", "-i", str(cluster.inventory), "--python", str(torch_python), "--json")
    found = documented(ended(cluster.begin(*words), ENDS_S, code=ExitCode.DONE).stdout, "pylaunch bench")
    assert {each["state"] for each in found["stages"]} == {"ok"}
    assert [each["bytes"] for each in found["all_reduce"]] == list(SIZES)
    assert {each["wrong"] for each in found["all_reduce"]} == {0}
    assert [(each["first"], each["second"]) for each in found["pairs"]] == [("n1", "n2")]
    assert "fewer than 3 nodes" in found["abstained"]
