"""Words that name a repository of the hub, and what a node reports about its download."""

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import cast

import pytest

from pylaunch.agent.piped import pieces
from pylaunch.agent.piped.piece_source import SourceTree
from pylaunch.broadcast.node_source import NodeProgram
from pylaunch.cli.main import run
from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.features.push import on_node
from pylaunch.features.push.hub import HubRepository, _downloaded, failure, repository
from pylaunch.model.cluster import Host
from pylaunch.transport.connector import Connector
from pylaunch.transport.process import Child

MODEL = HubRepository("model", "org/model", "main", None)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("hf:org/model", MODEL),
        ("n1:hf:org/model", HubRepository("model", "org/model", "main", "n1")),
        ("hf:gpt2@refs/pr/1", HubRepository("model", "gpt2", "refs/pr/1", None)),
        ("hf:datasets/a-b/c.d@v1", HubRepository("dataset", "a-b/c.d", "v1", None)),
        ("hf:/data/model", None),
        ("n1:/data/hf:x", None),
        ("n1:./hf:x", None),
    ],
)
def test_a_word_names_a_repository_with_its_revision_and_node(word: str, found: HubRepository | None) -> None:
    assert repository(word) == found


@pytest.mark.parametrize(
    "rest", ["", "../x", "org/../x", "a/b/c", "--token", "org/-x", "org/a--b", "a\x1b/b", "a/b\n", "org/model@", "m@-x",
             "m@a..b", "m@/a", "m@a/", "x" * 97, "org/model main", "https://huggingface.co/org/model"],
)  # fmt: skip
def test_a_word_that_is_no_name_is_refused_before_a_host_is_contacted(
    rest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["push", "-H", "n1", f"n1:hf:{rest}", "/data/hf"]) == ExitCode.USAGE
    printed = capsys.readouterr().err
    assert "no name of a repository of the hub\n\nhint: hf:ORG/MODEL, hf:ORG/MODEL@REVISION" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["hf:org/model", "hf:org/other", "/data/hf"], "one repository in each push, and one DEST"),
        (["hf:org/model", "hf:org/other"], "one repository in each push, and one DEST"),
        (["--secret", "WANDB_API_KEY", "hf:org/model"], "--secret WANDB_API_KEY: push needs no secret but HF_TOKEN"),
        (["--secret", "HF_TOKEN", "model", "/data"], "--secret HF_TOKEN: push needs no secret but HF_TOKEN, for hf:"),
        (["model"], "model: no DEST"),
    ],
)
def test_words_that_do_not_fit_together_are_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["push", "-H", "n1", *words]) == ExitCode.USAGE
    assert f"error: {why}" in capsys.readouterr().err.replace("hf:org/model: ", "")


def test_what_the_hub_answers_is_shown_without_the_token_and_control_characters() -> None:
    error = failure(MODEL, "n1", "hf_secret", "denied", "401 for hf_secret\x1b[2J" + "x" * 1000)
    assert isinstance(error, ClusterNotReadyError)
    assert error.message == "n1: the hub refuses HF_TOKEN for model org/model"
    assert error.evidence[0].startswith("401 for ***\\x1b[2Jxxx")
    assert len(error.evidence[0]) == 300
    assert isinstance(failure(MODEL, "n1", None, "absent", ""), UsageError)


class GatedRepoError(Exception):
    """As huggingface_hub names it."""


class TransportError(Exception):
    """As its HTTP client names it."""


class OfflineModeIsEnabled(ConnectionError):  # noqa: N818
    """As huggingface_hub names it."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (GatedRepoError("terms"), "gated"),
        (OSError(errno.ENOSPC, "No space left on device"), "full"),
        (OfflineModeIsEnabled("HF_HUB_OFFLINE"), "offline"),
        (TransportError("refused"), "unreached"),
        (ConnectionRefusedError("refused"), "unreached"),
        (ValueError("x" * 5000), "other"),
    ],
)
def test_a_node_reports_the_kind_of_an_error_in_one_bounded_line(
    error: Exception, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "_exit", lambda _: None)
    on_node._report(type(error), error, None)
    (line,) = capsys.readouterr().out.splitlines()
    reported, text = json.loads(line)["error"]
    assert reported == kind
    assert len(text) <= on_node.LONGEST_TEXT


@pytest.mark.parametrize(
    "snapshot", [["hub", COMMIT], ["/a/../etc", COMMIT], ["/a\x1b[2J", COMMIT], ["/data", "../../etc"], ["/data"]]
)
def test_a_cache_or_a_commit_that_is_none_is_not_understood(snapshot: list[str]) -> None:
    class Lines:
        async def readline(self) -> bytes:
            return json.dumps({"snapshot": snapshot}).encode() + b"\n"

    node = NodeProgram(Host("n1", "10.0.0.1"), cast("Connector", None), cast("Child", Lines()))
    with pytest.raises(ClusterNotReadyError, match="n1: its message is not understood"):
        asyncio.run(_downloaded(node, MODEL, None, lambda _: None))


def test_one_snapshot_travels_without_other_revisions_and_parts_of_other_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models--org--model"
    for path in ("blobs/one", "blobs/other", "blobs/part.incomplete", "refs/main", "refs/old", f"trees/{COMMIT}.json"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    for commit, blob in ((COMMIT, "one"), ("f" * 40, "other")):
        (folder / "snapshots" / commit / "sub").mkdir(parents=True)
        (folder / "snapshots" / commit / "sub/weights").symlink_to(f"../../../blobs/{blob}")
    outside = tmp_path / "outside"
    outside.touch()
    (folder / "snapshots" / COMMIT / "far").symlink_to(outside)
    served = []

    def serve(sources: list[tuple[str, str]], takes: object) -> None:
        tree = SourceTree(takes)  # type: ignore[arg-type]
        tree.add(*sources[0])
        served.extend([path for _, path, _ in tree.files] + [path for path, _ in tree.links])

    monkeypatch.setattr(pieces, "serve", serve)
    on_node.serve_snapshot([(str(folder), "m")], "main", COMMIT)
    assert served == [
        "m/blobs/one", "m/refs/main", f"m/trees/{COMMIT}.json",
        f"m/snapshots/{COMMIT}/far", f"m/snapshots/{COMMIT}/sub/weights",
    ]  # fmt: skip
