from pathlib import Path

import pytest

from pylaunch.agent.probe.readers.hosts import host_facts
from pylaunch.agent.shared import essentials
from pylaunch.agent.shared.installed import MARKER


def test_distributions_are_read_from_their_directories_and_normalized(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    for name in ("torch-2.8.0+cu128", "nvidia_nccl_cu12-2.27.3", "Jinja2-3.1.6"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    python = str(tmp_path / "bin" / "python")
    assert essentials.distributions(python) == {"torch": "2.8.0+cu128", "nvidia-nccl-cu12": "2.27.3", "jinja2": "3.1.6"}
    assert essentials.libraries(python) == {"torch": "2.8.0+cu128", "nccl": "2.27.3"}


def test_interfaces_of_containers_are_no_facts_of_their_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_facts, "listed", lambda _: ["lo", "eth0", "veth1a2b", "vb-n3", "ve-web", "vz-lan"])
    monkeypatch.setattr(host_facts, "text_of", lambda _: "1500\n")
    monkeypatch.setattr(host_facts, "text_or_none", lambda _: "10000")
    assert host_facts.network(None) == {"eth0 mtu": "1500", "eth0 speed": "10000"}


def test_an_edited_file_of_our_environment_is_a_separate_fact(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    info = packages / "six-1.17.0.dist-info"
    info.mkdir(parents=True)
    (packages / "six.py").write_text("six = 6\n")
    (info / "RECORD").write_text("six.py,sha256=AAAA,8\n")
    assert host_facts.files_not_as_installed(str(tmp_path)) == {}, (
        "an environment that is not ours has no record of ours"
    )
    (tmp_path / MARKER).write_text("{}")
    (packages / "six.py").write_text("six = 7777\n")
    expected = {str(packages / "six.py"): "edited (six-1.17.0)"}
    assert host_facts.files_not_as_installed(str(tmp_path)) == expected
