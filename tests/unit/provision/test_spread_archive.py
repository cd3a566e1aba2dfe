"""Hosts to which an archive, or a part of it, is passed on."""

from types import SimpleNamespace
from typing import cast

from pylaunch.provision.convergence import ProvisionSurvey
from pylaunch.provision.environments.spread_archive import lacking
from pylaunch.provision.state import DesiredEnvironment, DesiredLink, RoleState, questions

CURRENT, NAMED = "/opt/pylaunch/current", "/opt/pylaunch/named/vision"
STATE = RoleState(
    "python_env",
    environments=(DesiredEnvironment("/opt/pylaunch/envs/1", "1"),),
    links=(DesiredLink(NAMED, "../envs/1"),),
)


def test_hosts_that_have_the_environment_lack_nothing_and_the_others_what_their_own_has_not() -> None:
    assert questions([STATE])["links"] == [NAMED, CURRENT]
    links = {
        "n1": {NAMED: None, CURRENT: None},
        "n2": {NAMED: None, CURRENT: "envs/0"},
        "n3": {NAMED: "../envs/2", CURRENT: "envs/0"},
        "n4": {NAMED: "../envs/0"},
    }
    has = {"n4": {STATE.environments[0].path: {"recorded": "1", "digest": "1", "runs": True}}}
    survey = SimpleNamespace(
        facts={
            host: SimpleNamespace(links=each, environments=has.get(host, {STATE.environments[0].path: None}))
            for host, each in links.items()
        },
        desired=SimpleNamespace(hosts=dict.fromkeys(links, (STATE,))),
    )
    assert lacking(cast("ProvisionSurvey", survey)) == {"n1": ("1", ""), "n2": ("1", "0"), "n3": ("1", "2")}
