"""Scripts of jobs of several roles on real nodes with Slurm: servers and trainers of the standard library."""

import json
from pathlib import Path

from pylaunch.features.lab.cluster.lab import Lab

SERVER = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["PYLAUNCH_REPLICA"].encode())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("stopped by SIGTERM", flush=True)))
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
"""
TRAINER = """
import os, socket, sys, urllib.request
answers = [urllib.request.urlopen(f"http://{each}/").read().decode() for each in sys.argv[1].split(",")]
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
def met():
    if os.environ["RANK"] == "0":
        return socket.create_server(("", address[1])).accept()
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            pass
met()
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "asked servers", *answers)
"""
JOB = f"""
[roles.server]
program = ["python3", "-c", {json.dumps(SERVER)}, "{{ports.http}}"]
nodes = 1
replicas = 2
shared = true
ports = ["http"]
ready = "http:http/"
service = true

[roles.trainer]
program = ["python3", "-c", {json.dumps(TRAINER)}, "{{roles.server.endpoints}}"]
nodes = 2
shared = true
after = "server"
"""


def submitted(lab: Lab, directory: Path, *sets: str) -> tuple[int, dict[str, str]]:
    """Submit the script of JOB, and return the exit code of the job and its output files by the name of the part."""
    (directory / "roles.toml").write_text(JOB)
    words = (word for each in sets for word in ("--set", each))
    options = ("-i", str(lab.inventory), "--workdir", "/tmp", "--framework", "command")
    script = lab.pylaunch("render", "slurm", *options, str(directory / "roles.toml"), *words)
    assert script.ok, script.stderr
    first = lab["n1"]
    first.run("mkdir", "-p", "/tmp/of-roles")
    ended = first.run(
        "sbatch", "--parsable", "--wait", "--chdir=/tmp/of-roles", stdin=script.stdout.encode(), check=False
    )
    job = ended.stdout.strip()
    names = {"": "", "server.0": ".server.0", "server.1": ".server.1", "trainer": ".trainer"}
    shown = {
        name: first.run("cat", f"/tmp/of-roles/roles-{job}{ending}.out", check=False).stdout
        for name, ending in names.items()
    }
    return ended.returncode, shown


def test_servers_and_trainers_run_to_the_end_and_the_servers_are_ended(slurm: Lab, tmp_path: Path) -> None:
    code, shown = submitted(slurm, tmp_path)
    assert code == 0, shown
    assert shown[""].splitlines()[-1].endswith("job roles: trainer done")
    for rank in "01":
        assert f"{rank}: rank {rank} of 2 asked servers 0 1" in shown["trainer"]
    assert all("stopped by SIGTERM" in shown[f"server.{replica}"] for replica in "01")
    assert not any(node.run("pgrep", "-f", "http[.]server", check=False).ok for node in slurm)


def test_a_server_that_is_never_ready_ends_the_job_with_its_name(slurm: Lab, tmp_path: Path) -> None:
    code, shown = submitted(slurm, tmp_path, "server.ready=http:1/", "server.ready-timeout=2")
    assert code == 1, shown
    assert "job roles: server.0 was not ready (http:1/) within 2 s" in shown[""]
    assert shown["trainer"] == ""
    assert not any(node.run("pgrep", "-f", "http[.]server", check=False).ok for node in slurm)
