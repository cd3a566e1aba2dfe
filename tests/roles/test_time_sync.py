from __future__ import annotations

import pytest
from testinfra.host import Host

from tests.roles.conftest import Provisioned

pytestmark = pytest.mark.lab


def test_chronyd_was_really_started_and_only_watches_the_clock_it_may_not_set(
    node: Host, provisioned: Provisioned
) -> None:
    condition = node.check_output("systemctl show --property=ConditionResult --value chrony.service")
    assert condition == "yes"
    (daemon, *_) = node.process.filter(comm="chronyd")
    assert "-x" in daemon.args.split()
    assert "note: n[1-3]: time_sync: clock not disciplined here (no CAP_SYS_TIME)" in provisioned.first.stderr
