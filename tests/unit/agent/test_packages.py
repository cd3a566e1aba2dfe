"""Parsers of package managers' output and of os-release; each case names its source."""

from pathlib import Path

import pytest
import yaml

from pylaunch.agent.probe.identity import read_os_release
from pylaunch.agent.probe.readers.roles import packages, services
from pylaunch.provision.observed.facts import ansible_family

CASES = Path(__file__).parents[2] / "cases"
PACKAGES = sorted((CASES / "packages").glob("*.yaml"))
RELEASES = sorted((CASES / "os_release").glob("*.yaml"))
READERS = {"rpm": packages.read_rpm, "dpkg": packages.dpkg_versions}
LOCKS = """\
# Added lock on Wed Jan 15 10:02:11 2025
nvidia-driver-3:570.86.15-1.el9.*
!nvidia-fabric-manager-0:560.35.03-1.*
"""
"""As dnf-plugins-core documents /etc/dnf/plugins/versionlock.list."""


@pytest.mark.parametrize("file", PACKAGES, ids=[file.stem for file in PACKAGES])
def test_only_installed_packages_are_returned(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    assert READERS[case["reader"]](case["text"]) == case["answer"]


def test_an_error_message_of_rpm_is_not_a_missing_package() -> None:
    with pytest.raises(ValueError, match="cannot open Packages database"):
        packages.read_rpm("error: cannot open Packages database in /nonexistent/x\n")


@pytest.mark.parametrize("file", RELEASES, ids=[file.stem for file in RELEASES])
def test_a_distribution_has_its_name_and_its_family_if_known(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    distribution = read_os_release(case["text"])
    assert (distribution["name"], ansible_family(distribution)) == (case["name"], case["family"])


def test_a_version_lock_is_only_for_the_package_of_that_name() -> None:
    assert packages.is_locked("nvidia-driver", LOCKS)
    assert not packages.is_locked("nvidia", LOCKS)
    assert not packages.is_locked("nvidia-fabric-manager", LOCKS)


@pytest.mark.parametrize("names", [["chrony.service"], ["chrony.service", "ssh.service"]])
def test_the_error_message_of_systemctl_is_kept_on_a_host_without_systemd(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus"
    monkeypatch.setattr(services, "output_of", lambda words: output)
    with pytest.raises(ValueError, match="has not been booted with systemd"):
        services.units(names)
