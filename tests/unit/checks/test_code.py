from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.readers.hosts import code as readers
from pylaunch.checks.hosts import code
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

WANTED = Wanted(workdir="/w", command=("train.py", "--config=base.yaml", "--lr", "0.1"), script="train.py")


def reading(files: dict[str, str], tree: dict[str, str]) -> dict[str, Any]:
    return {"code.files": files, "code.tree": {"complete": True, "files": tree}}


HEALTHY = reading({"train.py": "a", "base.yaml": "b"}, {"train.py": "a", "model.py": "c"})


def test_the_same_code_everywhere_is_no_finding() -> None:
    assert findings(code.CHECKS, alike(HEALTHY), WANTED) == []


@pytest.mark.parametrize(
    ("odd", "check", "severity", "text"),
    [
        (reading({"train.py": "x", "base.yaml": "b"}, {"train.py": "x", "model.py": "c"}), "code.files", Severity.FAIL,
         "train.py differs, compared with n[1,3]"),
        (reading({"train.py": "", "base.yaml": "b"}, {"model.py": "c"}), "code.files", Severity.FAIL,
         "train.py does not exist in /w"),
        (reading({"train.py": "a"}, {"train.py": "a", "model.py": "c"}), "code.files", Severity.FAIL,
         "base.yaml is missing, compared with n[1,3]"),
        (reading({"train.py": "a", "base.yaml": "b"}, {"train.py": "a", "model.py": "x"}), "code.tree", Severity.WARN,
         "model.py differs"),
        (reading({"train.py": "a", "base.yaml": "b"}, {"train.py": "a", "model.py": "c", "new.py": "n"}), "code.tree",
         Severity.WARN, "new.py is only here"),
    ],
)  # fmt: skip
def test_a_file_that_differs_on_one_host_is_reported_once(
    odd: dict[str, Any], check: str, severity: Severity, text: str
) -> None:
    (finding,) = findings(code.CHECKS, alike(HEALTHY, n2=odd), WANTED)
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))
    assert text in finding.text


def test_a_file_that_only_one_of_two_hosts_has_is_reported_once() -> None:
    lacking = reading({"train.py": "a"}, {"train.py": "a", "model.py": "c"})
    for has, lacks in (("n1", "n2"), ("n2", "n1")):
        (found,) = findings(code.CHECKS, dict(sorted({has: HEALTHY, lacks: lacking}.items())), WANTED)
        assert (found.hosts, found.text) == ((lacks,), f"base.yaml is missing, compared with {has}")


def test_a_checkpoint_that_a_command_line_names_is_not_compared(tmp_path: Path) -> None:
    for name in ("train.py", "base.yaml", "digits.pt", "given.pt"):
        (tmp_path / name).write_text("x")
    words = ["base.yaml", "digits.pt", "absent.yaml"]
    found = readers.files({"workdir": str(tmp_path), "paths": ["train.py", "given.pt"], "candidates": words})
    assert list(found) == ["train.py", "given.pt", "base.yaml"]


@pytest.mark.parametrize(
    ("path", "patterns", "expected"),
    [
        ("model.py", ["*.py"], True),
        ("deep/model.py", ["*.py"], True),
        ("deep/model.py", ["/*.py"], False),
        ("outputs/", ["outputs/"], True),
        ("deep/outputs/", ["outputs/"], True),
        ("outputs", ["outputs/"], False),
        ("deep/gen.py", ["deep/*.py"], True),
        ("deeper/deep/gen.py", ["deep/*.py"], False),
        ("deeper/deep/gen.py", ["**/gen.py"], True),
        ("gen.py", ["**/gen.py"], True),
        ("keep.py", ["*.py", "!keep.py"], False),
        ("keep.py", ["!keep.py", "*.py"], True),
    ],
)
def test_ignore_files_have_the_meaning_that_git_gives_them(path: str, patterns: list[str], expected: bool) -> None:
    rules = [(pattern.lstrip("!"), pattern.startswith("!")) for pattern in patterns]
    assert readers.ignored(path, rules) is expected


def test_the_tree_holds_code_and_neither_results_nor_environments_nor_what_is_ignored(tmp_path: Path) -> None:
    for name in ("train.py", "pkg/ops.cu", "pkg/__pycache__/x.py", "out/log.py", "run.json", ".venv/lib/a.py",
                 "ranks/lib/b.py", "ranks/pyvenv.cfg"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / ".gitignore").write_text("# results\n/out/\n")
    found = readers.tree(str(tmp_path))
    assert found is not None
    assert (found["complete"], sorted(found["files"])) == (True, ["pkg/ops.cu", "train.py"])


def test_a_tree_beyond_the_limits_is_reported_and_the_root_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "b.py").write_text("")
    monkeypatch.setattr(readers, "MOST_FILES", 1)
    assert readers.tree(str(tmp_path)) == {"complete": False, "files": {}}
    assert readers.tree("/") is None


def test_a_script_that_is_on_no_host_can_be_taken_along() -> None:
    missing = reading({"train.py": "", "base.yaml": "b"}, {"model.py": "c"})
    (finding, *_) = findings(code.CHECKS, alike(missing), WANTED)
    assert finding.text == "train.py does not exist in /w"
    assert finding.fix == "take the code along with --sync ., or copy the right /w/train.py to n[1-3]"


def test_an_absolute_path_that_does_not_exist_is_to_be_copied_there() -> None:
    wanted = Wanted(workdir="/", files=("/data/x.yaml",))
    (finding,) = findings(code.CHECKS, alike({"code.files": {"/data/x.yaml": ""}}), wanted)
    assert finding.text == "/data/x.yaml does not exist"
    assert finding.fix == "copy the right /data/x.yaml to n[1-3]"
