"""Secrets reach the ranks, and stay in no file and no message of the node."""

import sys
from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, gone, task
from tests.files import content_below

SECRET = "hunter2-hunter2"
BARE = {"PATH": "/usr/bin:/bin"}


def files_with(root: Path, secret: str) -> list[str]:
    return [str(path) for path, content in content_below(root).items() if secret.encode() in content]


def test_a_secret_reaches_ranks_and_is_masked_in_their_output_and_files(node: Node, tmp_path: Path) -> None:
    asked = task(
        tmp_path, 'echo "key: $HF_TOKEN."; echo "$HF_TOKEN" | wc -c; echo "bad $HF_TOKEN" >&2; exit 3', env=BARE
    )
    controller = node.open()
    controller.send(protocol.Prepare(asked, {"HF_TOKEN": SECRET}))
    controller.until(protocol.Ready)
    assert files_with(node.root, SECRET) == []
    controller.send(protocol.Follow({}, None), protocol.Release(0.0))
    controller.until(protocol.Finished)
    gone(node.supervisor(controller))
    stars = "*" * len(SECRET)
    assert controller.text("0.out") == f"key: {stars}.\n{len(SECRET) + 1}\n"
    assert controller.ended(0).last_lines == (f"bad {stars}",)
    assert files_with(node.root, stars), "the rank's own log is where it is looked for"
    assert files_with(node.root, SECRET) == []


def test_no_secret_is_in_the_end_of_a_rank_and_in_output_that_is_written_in_parts(node: Node, tmp_path: Path) -> None:
    secret = 'hunter2 "quoted" hunter2'
    program = """import json, os, sys, time
secret = os.environ["HF_TOKEN"]
os.write(1, secret[:9].encode())
time.sleep(1.0)
os.write(1, secret[9:].encode() + b"\\n")
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": {"message": f"ValueError: {secret}", "extraInfo": {"py_callstack": ""}}}, file)
sys.exit("x" * 1990 + secret)
"""
    controller = node.open()
    controller.send(
        protocol.Prepare(task(tmp_path, [sys.executable, "-c", program], env=BARE), {"HF_TOKEN": secret}),
        protocol.Follow({}, None),
    )
    controller.until(protocol.Ready)
    controller.send(protocol.Release(0.0))
    controller.until(protocol.Finished)
    stars = "*" * len(secret)
    assert controller.text("0.out") == f"{stars}\n"
    end = controller.ended(0)
    assert end.error == f"ValueError: {stars}"
    assert end.last_lines == ("x" * 1990 + stars[:10],)


def test_a_launcher_and_its_ranks_have_the_secret(node: Node, tmp_path: Path) -> None:
    launcher = ["/bin/sh", "-c", 'echo ${#HF_TOKEN}; LOCAL_RANK=0 "$@"', "sh", protocol.RANK_ENTRY]
    controller = node.open()
    controller.send(protocol.Prepare(task(tmp_path, "echo ${#HF_TOKEN}", launcher=launcher), {"HF_TOKEN": SECRET}))
    controller.until(protocol.Ready)
    controller.send(protocol.Follow({}, None), protocol.Release(0.0))
    controller.until(protocol.Finished)
    assert controller.text("launcher.out") == controller.text("0.out") == f"{len(SECRET)}\n"
