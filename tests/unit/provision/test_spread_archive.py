"""Hosts to which an archive is passed on."""

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


def test_only_hosts_without_any_environment_lack_the_archive() -> None:
    assert questions([STATE])["links"] == [NAMED, CURRENT]
    links = {"n1": {NAMED: None, CURRENT: None}, "n2": {NAMED: None, CURRENT: "envs/0"}, "n3": {NAMED: "../envs/0"}}
    survey = SimpleNamespace(
        facts={host: SimpleNamespace(links=each) for host, each in links.items()},
        desired=SimpleNamespace(hosts=dict.fromkeys(links, (STATE,))),
    )
    assert lacking(cast("ProvisionSurvey", survey)) == {"n1": "1"}
