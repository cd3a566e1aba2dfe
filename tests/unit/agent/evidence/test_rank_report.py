import json
from pathlib import Path

import pytest

from pylaunch.agent.evidence import rank_report
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import NOTHING_SECRET
from pylaunch.base.layout import RunDirectory
from pylaunch.runtime import failure

STACK = """Traceback (most recent call last):
  File "/home/ml/train.py", line 40, in <module>
    main()
  File "/home/ml/model/loss.py", line 12, in step
    return functional.cross_entropy(logits, labels)
  File "/opt/pylaunch/current/lib/python3.11/site-packages/torch/nn/functional.py", line 3500, in cross_entropy
    return torch._C._nn.cross_entropy_loss(input, target)
  File "<frozen runpy>", line 88, in _run_code
IndexError: Target 12 is out of bounds.
"""


def written(message: object, stack: str = STACK) -> object:
    return {"message": {"message": message, "extraInfo": {"py_callstack": stack, "timestamp": "1"}}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (written("IndexError: Target 12"), "IndexError: Target 12 (/home/ml/model/loss.py:12)"),
        (written("IndexError: Target\nsecond line"), "IndexError: Target (/home/ml/model/loss.py:12)"),
        (
            written("X: y", '  File "/usr/lib/python3.11/json/decoder.py", line 5, in f\n'),
            "X: y (/usr/lib/python3.11/json/decoder.py:5)",
        ),
        (written("SignalException: killed", ""), "SignalException: killed"),
        ({"message": "an old format"}, "an old format"),
        ({"message": {"message": None}}, ""),
        ({"message": {"message": "X: y", "extraInfo": None}}, "X: y"),
        ([], ""),
        ({}, ""),
    ],
)
def test_an_error_file_is_one_line_with_the_innermost_frame_of_the_user(body: object, expected: str) -> None:
    assert rank_report.described(body, NOTHING_SECRET) == expected


def test_the_agent_reports_the_exception_that_the_runtime_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory("r1", str(tmp_path))
    rank_report.make_room(directory)
    for name, value in rank_report.environment(directory, 3).items():
        monkeypatch.setenv(name, value)
    assert rank_report.error(directory, 3, NOTHING_SECRET) == ""
    for text in ("the first", "the second"):
        try:
            raise FloatingPointError(text)
        except FloatingPointError as error:
            failure.keep(error)
    line = STACK_LINE
    assert rank_report.error(directory, 3, NOTHING_SECRET) == f"FloatingPointError: the first ({__file__}:{line})"


def test_an_error_file_of_an_earlier_process_is_not_reported(tmp_path: Path) -> None:
    directory = RunDirectory("r1", str(tmp_path))
    rank_report.make_room(directory)
    Path(directory.of_rank(0, "error.json")).write_text(json.dumps(written("X: y")))
    assert rank_report.error(directory, 0, NOTHING_SECRET) != ""
    rank_report.make_room(directory)
    assert rank_report.error(directory, 0, NOTHING_SECRET) == ""


STACK_LINE = 1 + Path(__file__).read_text().splitlines().index("            raise FloatingPointError(text)")


def test_a_secret_in_an_error_file_is_masked_before_the_line_is_cut() -> None:
    secret = 'hunter2"\\hunter2'
    stack = f'  File "/home/{secret[-7:]}-hunter2/x.py", line 3, in <module>\n'
    mask = Mask([secret, "hunter2-hunter2"])
    body = json.loads(json.dumps(written(f"KeyError: {secret} {[secret]}", stack)))
    assert rank_report.described(body, mask) == f"KeyError: {'*' * 16} ['{'*' * 17}'] (/home/{'*' * 15}/x.py:3)"
    long = written("X: " + "x" * (rank_report.MAX_TEXT - 8) + secret, "")
    assert "hunt" not in rank_report.described(long, mask)
