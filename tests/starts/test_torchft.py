"""The job file of examples/torchft with stand-ins for the lighthouse and the training. benchmarks/ runs torchft."""

from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

EXAMPLE = Path(__file__).parents[2] / "examples/torchft/job.toml"
LIGHTHOUSE = """\
#!/usr/bin/env python3
import http.server, sys, threading
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert given.pop("--min_replicas") == "1" and {"--join_timeout_ms", "--heartbeat_timeout_ms"} < given.keys(), given
joined, changed = set(), threading.Condition()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        verb, _, group = self.path[1:].partition("/")
        with changed:
            if verb == "join":
                joined.add(group)
                changed.notify_all()
            elif verb == "await":
                changed.wait_for(lambda: group in joined)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
host, _, port = given["--bind"].rpartition(":")
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""
TRAIN = """\
import os, signal, sys, urllib.request
assert sys.argv[1] == "--steps" and os.environ["WORLD_SIZE"] == "2"
group, attempt = os.environ["PYLAUNCH_REPLICA"], os.environ["TORCHELASTIC_RESTART_COUNT"]
def ask(path):
    urllib.request.urlopen(os.environ["TORCHFT_LIGHTHOUSE"] + path).read()
ask(f"/join/{group}.{attempt}")
if (group, attempt, os.environ["RANK"]) == ("1", "0", "1"):
    ask("/await/0.0")
    os.kill(os.getpid(), signal.SIGKILL)
ask("/await/1.1")
print("both groups train")
"""


def test_a_group_that_is_killed_starts_again_while_the_other_one_trains(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/torchft_lighthouse").write_text(LIGHTHOUSE)
    (tmp_path / "bin/torchft_lighthouse").chmod(0o755)
    (tmp_path / "train.py").write_text(TRAIN)
    place = ("--workdir", str(tmp_path), "--python", "/usr/bin/python3", "--env", f"PATH={tmp_path}/bin:/usr/bin:/bin")
    job = ended(cluster.begin("start", "-i", str(cluster.inventory), *place, str(EXAMPLE)), code=ExitCode.DONE)
    assert job.stdout.count("both groups train") == 4
    assert "group.1    restart 1 of 10" in job.stderr
    assert "group.0    restart" not in job.stderr
    assert job.stderr.splitlines()[-1] == "job torchft done: group.0, group.1 done"
    statuses = [each["status"] for each in cluster.outcomes().values()]
    assert sorted(statuses) == ["done", "done", "failed", "stopped"]
