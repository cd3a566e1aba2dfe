from __future__ import annotations

import asyncio

from pylaunch.launch.connect.agent_link import AgentVersion
from pylaunch.launch.connect.fleet import INBOX, Fleet, Interrupted
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run

PLAN = plan_run(Cluster((Host("n1", "10.0.0.1"),)), JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01")


def test_messages_that_were_put_back_are_received_first_and_in_order() -> None:
    async def story() -> list[tuple[str, object]]:
        fleet = Fleet(PLAN, AgentVersion("0123"))
        fleet.interrupt("interrupted")
        early = [(f"n{number}", number) for number in range(2 * INBOX)]
        fleet.put_back(early[:1])
        fleet.put_back([await fleet.hear(), *early[1:]])
        return [await fleet.hear() for _ in range(len(early) + 1)]

    heard = asyncio.run(story())
    assert heard[:-1] == [(f"n{number}", number) for number in range(2 * INBOX)]
    assert heard[-1] == ("", Interrupted("interrupted"))
