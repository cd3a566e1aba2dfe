from __future__ import annotations

import pytest

from pylaunch.errors import ProvisionError
from pylaunch.protocol.readings.roles import DistributionReading
from pylaunch.provision.errors import refuse_unknown
from pylaunch.provision.state import RoleState

LEAP = DistributionReading(name="openSUSE Leap 15.6", ids=["opensuse-leap", "suse"])
DEBIAN = DistributionReading(name="Debian GNU/Linux 12 (bookworm)", ids=["debian"])


def test_a_distribution_that_no_role_knows_is_refused_by_its_name() -> None:
    wanted = (RoleState("time_sync", packages=("chrony",)),)
    with pytest.raises(ProvisionError) as caught:
        refuse_unknown({"n1": wanted, "n2": wanted, "n3": wanted}, {"n1": DEBIAN, "n2": LEAP, "n3": LEAP})
    assert "not the distribution of n[2-3]" in caught.value.message
    assert caught.value.evidence == ("n[2-3]  openSUSE Leap 15.6",)
    assert caught.value.hint is not None
    assert "pylaunch_unprivileged=true" in caught.value.hint


def test_an_unknown_distribution_is_accepted_if_no_role_depends_on_it() -> None:
    refuse_unknown({"n2": (RoleState("python_env"),)}, {"n2": LEAP})
