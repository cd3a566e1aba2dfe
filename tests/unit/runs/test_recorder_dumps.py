"""Dumps that were collected by hand are judged like those of live ranks."""

import pickle
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.runs.recorder_dumps import judge_dumps
from tests.unit.verdict.hangs.views import CASES

DUMPS = CASES / "dumps"
GUILTY = {
    "chain_of_groups": 3, "loads_data": 1, "no_barrier": 1, "opens_file": 1, "other_operation": 1,
    "rank_0_deviates": 0, "reads_terminal": 0, "skips_and_continues": 1, "skips_and_waits": 1, "starts_asynchronous": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", GUILTY)
def test_the_rank_at_fault_is_named_from_the_dumps_alone(name: str) -> None:
    assert judge_dumps(DUMPS / name).findings[0].ranks == (GUILTY[name],)


@pytest.mark.parametrize("name", ["pair_differs", "receives_in_circle", "is_healthy", "is_stopped", "inverse_order"])
def test_nobody_is_named_where_dumps_alone_do_not_show_it(name: str) -> None:
    assert {rank for finding in judge_dumps(DUMPS / name).findings for rank in finding.ranks} == set()


def test_a_rank_without_a_dump_is_absent(tmp_path: Path) -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    call = {
        "process_group": ("0", "default_pg"), "collective_seq_id": 5, "profiling_name": "nccl:all_reduce",
        "state": "scheduled", "input_sizes": [[4]], "output_sizes": [[4]], "input_dtypes": ["Float"],
    }  # fmt: skip
    for rank in (0, 1, 2):
        dump = pickle.dumps({"pg_config": config, "entries": [call]}, 2)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump)
    judged = judge_dumps(tmp_path)
    assert (judged.ranks, judged.absent) == ((0, 1, 2), (3,))
    assert judged.findings[0].kind is not HangKind.TRANSPORT
    assert judged.findings[0].ranks == ()


def test_files_that_are_no_dumps_are_skipped_with_the_reason(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"r_{rank}").write_bytes((DUMPS / "skips_and_waits" / str(rank)).read_bytes())
    (tmp_path / "log_7").write_text("a log")
    (tmp_path / "notes.txt").write_text("")
    judged = judge_dumps(tmp_path)
    assert judged.findings[0].ranks == (1,)
    assert [*judged.refused] == ["log_7"]


def test_a_directory_without_dumps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r_0").write_bytes(pickle.dumps({"entries": [print]}))
    with pytest.raises(UsageError, match="no flight recorder dump") as raised:
        judge_dumps(tmp_path)
    assert "not allowed in a flight recorder dump" in str(raised.value.evidence)
