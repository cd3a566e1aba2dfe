"""The checks of `pylaunch check` judge the reports of the agents at a start; a FAIL refuses the start."""

from dataclasses import replace

import pytest

from pylaunch.checks import suite
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import ATTESTATION, Finding, Severity
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.prepare.session import PreparedNodes
from pylaunch.runs.start_checks import ChecksAtStart, at_start_checks, compare_nodes, with_reports

NAMES = ("n1", "n2", "n3")
CLUSTER = Cluster(tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(NAMES)))
PREPARED = PreparedNodes(
    essentials={name: {"environment digest": "a" * 64, "python": "3.11.7"} for name in NAMES},
    libraries={name: {"numpy": "2.1.0", "torch": "2.8.0"} for name in NAMES},
    clocks={name: ClockOffset(0.001, 0.002) for name in NAMES},
    connections={name: {peer: "ok" for peer in NAMES if peer != name} for name in NAMES},
)


def found(prepared: PreparedNodes, cluster: Cluster = CLUSTER, *, connected: bool = True) -> list[Finding]:
    wanted = Wanted(
        peers={host.name: host.address for host in cluster.hosts},
        pythons=dict.fromkeys(cluster.names, "/opt/env/bin/python"),
        connected=connected,
    )
    survey = with_reports(Survey(cluster, wanted, {}), prepared)
    return list(suite.judge(survey, at_start_checks()))


def test_nodes_that_agree_and_reach_each_other_are_no_matter_for_words() -> None:
    assert found(PREPARED) == []


def test_a_host_whose_connections_were_not_tried_is_named_and_never_passed() -> None:
    connections = {name: ends for name, ends in PREPARED.connections.items() if name != "n3"}
    (finding,) = found(replace(PREPARED, connections=connections))
    assert (finding.check, finding.severity, finding.hosts) == ("network.ports", Severity.UNKNOWN, ("n3",))
    unreadable = {**PREPARED.essentials, "n1": {"environment digest": "unreadable: Input/output error"}}
    (finding,) = found(replace(PREPARED, essentials=unreadable))
    assert (finding.check, finding.severity, finding.hosts) == ("python_env.libraries", Severity.UNKNOWN, ("n1",))


@pytest.mark.parametrize(
    ("framework", "skip", "judged"),
    [
        (Framework.COMMAND, (), ["kernel series"]),
        (Framework.DIRECT, (), ["python", "environment digest", "torch", "nccl", "kernel series"]),
        (Framework.DIRECT, ("host", "python_env.python"), ["environment digest", "torch", "nccl"]),
    ],
)
def test_a_fact_that_a_check_of_the_start_judges_is_reported_by_that_check_alone(
    framework: Framework, skip: tuple[str, ...], judged: list[str]
) -> None:
    plan = plan_run(CLUSTER, JobSpec(("train.py",), framework, "/w"), "r")
    assert sorted(ChecksAtStart(plan, at_start_checks(skip=skip), lambda event: None).judged) == sorted(judged)


SAME = {"kernel series": "6.1", "gpu driver": "", "nccl": "2.27.3"}


def nodes(**odd: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: {**SAME, **odd.get(name, {})} for name in ("n1", "n2", "n3")}


def test_a_node_that_differs_causes_a_warning_with_a_hint() -> None:
    assert compare_nodes(nodes()) == ()
    assert compare_nodes(nodes(n2={"nccl": "2.26.2"})) == (
        Finding(
            ATTESTATION, Severity.WARN, ("n2",), "nccl: 2.26.2, expected 2.27.3 as on n[1,3]",
            "pylaunch provision --roles python_env --limit n2",
        ),
    )  # fmt: skip


def test_gpus_that_differ_warn_and_a_host_without_one_is_not_compared() -> None:
    others = {"n1": {"gpu models": "NVIDIA H200, 140 GiB"}, "n2": {"gpu models": "NVIDIA H100 80GB HBM3, 80 GiB"}}
    (first, second) = compare_nodes(nodes(**others))
    assert (first.severity, first.hosts) == (Severity.WARN, ("n1",))
    assert second.text == "gpu models: NVIDIA H100 80GB HBM3, 80 GiB, NVIDIA H200, 140 GiB on n1"
    assert compare_nodes(nodes(n1=others["n1"])) == ()


def test_an_unreadable_value_is_a_difference() -> None:
    (difference,) = compare_nodes(nodes(n1={"gpu driver": "unreadable: Input/output error"}))
    assert (difference.hosts, difference.text) == (
        ("n1",),
        "gpu driver: unreadable: Input/output error, expected none as on n[2-3]",
    )
