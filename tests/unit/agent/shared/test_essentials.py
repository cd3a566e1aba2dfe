from pathlib import Path

from pylaunch.agent.shared import essentials


def test_distributions_are_read_from_their_directories_and_normalized(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    for name in ("torch-2.8.0+cu128", "nvidia_nccl_cu12-2.27.3", "Jinja2-3.1.6"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    python = str(tmp_path / "bin" / "python")
    assert essentials.distributions(python) == {"torch": "2.8.0+cu128", "nvidia-nccl-cu12": "2.27.3", "jinja2": "3.1.6"}
    assert essentials.libraries(python) == {"torch": "2.8.0+cu128", "nccl": "2.27.3"}
