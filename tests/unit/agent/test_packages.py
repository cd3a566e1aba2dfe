"""Parsers of package managers' output and of os-release; each case names its source."""

from pathlib import Path

import pytest
import yaml

from pylaunch.agent.probe.identity import read_os_release
from pylaunch.agent.probe.readers.roles import packages, services
from pylaunch.provision.observed.facts import is_supported

CASES = Path(__file__).parents[2] / "cases"
PACKAGES = sorted((CASES / "packages").glob("*.yaml"))
RELEASES = sorted((CASES / "os_release").glob("*.yaml"))


@pytest.mark.parametrize("file", PACKAGES, ids=[file.stem for file in PACKAGES])
def test_only_installed_packages_are_returned(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    assert packages.dpkg_versions(case["text"]) == case["answer"]


@pytest.mark.parametrize("file", RELEASES, ids=[file.stem for file in RELEASES])
def test_a_distribution_has_its_name_and_is_supported_or_not(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    distribution = read_os_release(case["text"])
    assert (distribution["name"], is_supported(distribution)) == (case["name"], case["supported"])


@pytest.mark.parametrize("names", [["chrony.service"], ["chrony.service", "ssh.service"]])
def test_the_error_message_of_systemctl_is_kept_on_a_host_without_systemd(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus"
    monkeypatch.setattr(services, "output_of", lambda words: output)
    with pytest.raises(ValueError, match="has not been booted with systemd"):
        services.units(names)
