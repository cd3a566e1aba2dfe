"""What nodes send stays in the directory that was named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pylaunch.cli.views.collecting import Collector
from pylaunch.errors import UsageError


def test_output_is_collected_by_host_and_stream_anew_each_time(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "0.out").write_text("of an earlier run\n")
    collector = Collector(tmp_path)
    collector.output("n1", "0.out", "a\n", 1.0)
    collector.output("n1", "0.out", "b\udcff\n", 1.0)
    assert (tmp_path / "n1" / "0.out").read_bytes() == b"a\nb\xff\n"


@pytest.mark.parametrize("names", [("..", "x"), ("n1", ".."), ("n1", "/etc/x"), ("n1", "a/b"), ("/", "x"), ("n1", "")])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="is not a file name"):
        Collector(tmp_path / "logs").output(*names, "x\n", 1.0)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_links_and_devices_are_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    logs = tmp_path / "logs"
    (logs / "n1").mkdir(parents=True)
    (logs / "n1" / "0.out").symlink_to(outside / "precious")
    os.mkfifo(logs / "n1" / "1.out")
    (logs / "n2").symlink_to(outside)
    for host, stream in (("n1", "0.out"), ("n1", "1.out"), ("n2", "precious")):
        with pytest.raises(UsageError, match="cannot be written"):
            Collector(logs).output(host, stream, "x\n", 1.0)
    assert (outside / "precious").read_text() == "kept"
