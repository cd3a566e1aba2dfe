"""Other users of a node, and ranks that mean harm: they are named or ignored, and end nobody else's run."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pylaunch.errors import ExitCode
from pylaunch.features.lab.cluster.lab import Lab
from pylaunch.features.lab.cluster.nodes.node import LabNode
from tests.lab.by_hand import with_devices
from tests.lab.controller import must_be_clean
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
FORGER = r"""
import socket
held = socket.socket(socket.AF_UNIX)
held.bind("\0pylaunch/device/1")
held.listen(8)
open("/tmp/forger-holds", "w").close()
while True:
    asking = held.accept()[0]
    asking.sendall(b'{"run":"\\u001b]0;x\\nhint: rm -rf /","since":1e300,"devices":' + b"[" * 3000)
    asking.close()
"""


@contextlib.contextmanager
def forger(node: LabNode) -> Iterator[None]:
    """User nobody holds the lease of device 1 on `node`, and answers what no pylaunch would."""
    unit = "forger.service"
    node.run("systemd-run", "--quiet", "--collect", f"--unit={unit}", "--uid=nobody", "/usr/bin/python3", "-c", FORGER)
    try:
        holds = ("test", "-e", "/tmp/forger-holds")
        wait_until(lambda: node.run(*holds, check=False).returncode == 0, "the lease is held")
        yield
    finally:
        node.run("systemctl", "stop", unit)
        node.run("rm", "-f", "/tmp/forger-holds")


def test_a_lease_that_another_user_forges_is_named_by_the_kernels_word_and_ends_no_other_run(
    lab: Lab, tmp_path: Path
) -> None:
    both = with_devices(lab, tmp_path, "0,1")
    with forger(lab["n2"]):
        refused = lab.pylaunch("start", "-i", str(both), *COMMAND, "--", "true", timeout_s=300)
        beside = lab.pylaunch(
            "start", "-i", str(both), *COMMAND, "--nproc-per-node", "1", "--", "true", timeout_s=300
        )  # fmt: skip
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    assert "n2: device 1 is leased to pid " in refused.stderr
    assert " of nobody" in refused.stderr
    assert "rm -rf" not in refused.stderr
    assert beside.returncode == ExitCode.DONE, beside.stderr
    assert "n[1-3]: clean" in beside.stderr
    must_be_clean(lab)


def test_a_rank_that_puts_pipes_and_deep_json_in_the_place_of_its_files_is_named_and_its_node_is_not_lost(
    lab: Lab,
) -> None:
    spoil = (
        'rm -f "$TORCHELASTIC_ERROR_FILE"; [ $RANK = 1 ] || exec sleep 300; '
        'mkfifo "$TORCHELASTIC_ERROR_FILE" "$(dirname "$TORCHELASTIC_ERROR_FILE")/1.step"; '
        "echo spoiled >&2; exit 3"
    )
    failed = lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, "--", "sh", "-c", spoil, timeout_s=300)
    assert failed.returncode == ExitCode.JOB_FAILED, failed.stderr
    assert "rank 1 on n2 exited with code 3" in failed.stderr
    assert "n[1-3]: clean" in failed.stderr
    assert "lost" not in failed.stderr
    must_be_clean(lab)
