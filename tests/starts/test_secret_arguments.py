"""Secrets on the command line of a job, and who can read the records of runs."""

import os
import stat
from collections.abc import Callable

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

SECRETS = ("tr0ub4dor", "c0rrecth0rse", "batt3ryst4ple", "p1nkfl0yd")
JOB = (
    "sh", "-c", 'echo "uses $2"; [ "$2" = "tr0ub4""dor" ]', "sh", "--password", SECRETS[0], f"--api-token={SECRETS[1]}",
    f"model.api_key={SECRETS[2]}", f"http://me:{SECRETS[3]}@host/x", "--pad-token", "0",
)  # fmt: skip
NAMES = "--password, --api-token, model.api_key, argument 8"


def test_a_secret_on_the_command_line_is_in_no_record_and_no_view(
    directories: Callable[..., DirectoryCluster],
) -> None:
    """The ranks get the values; whoever looks at the run gets MASK, and rerun does not run that."""
    cluster = directories("n1")
    inventory = ("-i", str(cluster.inventory))
    started = ended(cluster.start("--", *JOB), code=ExitCode.DONE)
    assert started.stderr.count(f"note: {NAMES}: every user of a node can read") == 1
    assert "read it from a variable: --secret PASSWORD" in started.stderr
    (run,) = cluster.outcomes()
    shown = [
        cluster.run("ps", "--all", *inventory), cluster.run("status", run), cluster.run("status", run, "--json"),
        cluster.run("logs", run), ended(cluster.start("--dry-run", "--", *JOB)),
        ended(cluster.start("--dry-run", "--json", "--", *JOB)),
    ]  # fmt: skip
    for each in shown:
        assert [secret for secret in SECRETS if secret in each.stdout + each.stderr] == [], each.args
        assert "--password" in each.stdout or "uses *********" in each.stdout
    files = [path for path in (cluster.state / "pylaunch").rglob("*") if path.is_file()]
    assert [path for path in files if any(secret in path.read_text("latin-1") for secret in SECRETS)] == []
    again = cluster.run("rerun", run, code=ExitCode.USAGE)
    assert f"run {run}: the values of {NAMES} are not recorded" in again.stderr


def test_records_are_for_their_owner_alone(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1")
    (cluster.state / "pylaunch").mkdir(parents=True, mode=0o755)  # As earlier versions made it.
    before = os.umask(0o022)
    try:
        codes = [ended(cluster.start("--", job)).returncode for job in ("true", "false")]
    finally:
        os.umask(before)
    assert codes == [ExitCode.DONE, ExitCode.JOB_FAILED]
    paths = [cluster.state / "pylaunch", *(cluster.state / "pylaunch").rglob("*")]
    assert len([path for path in paths if path.name == "outcome.json"]) == 2
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}
