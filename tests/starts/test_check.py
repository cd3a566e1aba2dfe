from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster


def test_with_sync_the_code_that_would_be_shipped_is_checked(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("")
    words = ("check", "-i", str(cluster.inventory), "--only", "code", "--framework", "direct", "--sync", str(code))
    missing = cluster.run(*words, "--", "missing.py", code=ExitCode.USAGE)
    assert f"missing.py is not among the files to ship from {code}" in missing.stderr
    whole = cluster.run(*words, "--", "train.py")
    assert (whole.returncode, whole.stdout.strip()) == (ExitCode.DONE, "")
