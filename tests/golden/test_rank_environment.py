"""The page of a rank's environment names the layers and the variables of the code."""

import re

import pytest

from pylaunch.base.rank_environment import AGENT_VARIABLES, RUNTIME_PATH, Layer
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.render import render
from tests.documents import ROOT

PAGE = (ROOT / "docs/reference/rank-environment.md").read_text()
HOSTS = tuple(Host(name, name, devices=(0, 1), interface="eth0") for name in ("n1", "n2"))


def test_the_layers_are_on_the_page_in_their_order() -> None:
    assert re.findall(r"^\| \d+ \| `([^`]+)` \|", PAGE, re.MULTILINE) == [layer.value for layer in Layer]
    assert [name for name in (*AGENT_VARIABLES, RUNTIME_PATH) if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("framework", Framework)
def test_every_variable_of_a_framework_is_on_the_page(framework: Framework) -> None:
    command = render(plan_run(Cluster(HOSTS), JobSpec(("train.py",), framework, "/"), "7f3a9c01"))[0][1]
    names = {*command.ranks[0].env, *command.layers[Layer.FRAMEWORK]}
    assert [name for name in names if f"`{name}`" not in PAGE] == []
    assert f"| `{framework.value}` |" in PAGE or not command.ranks[0].env
