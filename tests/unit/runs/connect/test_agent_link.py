"""Why a node has no agent, with the next step."""

from pylaunch.model.cluster import Host
from pylaunch.runs.connect.agent_link import PYTHON_ABSENT, ROOT_UNTRUSTED, AgentAbsentError, why_ended
from pylaunch.transport.process import Completed


def ended(host: Host, returncode: int, stderr: str = "") -> tuple[str, str | None]:
    """Return reason and hint for an agent that ended so."""
    error = why_ended(host, Completed(("sh",), returncode, "", stderr), None)
    assert error.host_answers
    return error.reason, error.hint


def test_an_interpreter_that_is_not_there_is_corrected_in_the_inventory_unless_it_is_the_usual_one() -> None:
    assert ended(Host("n2", "10.0.0.2", agent_python="/opt/typo/python3"), PYTHON_ABSENT) == (
        "no Python at /opt/typo/python3",
        "correct pylaunch_agent_python or ansible_python_interpreter of n2 in the inventory",
    )
    assert ended(Host("n2", "10.0.0.2"), PYTHON_ABSENT)[1] == (
        "install python3 on n2 (apt-get, or pylaunch provision), or set its pylaunch_agent_python"
    )


def test_a_program_that_is_no_agent_is_left_to_check() -> None:
    """The interpreter may be another program, too old, or killed; `check` asks it alone."""
    host = Host("n2", "10.0.0.2", agent_python="/bin/true")
    reason = "the connection to its agent ended (exit code 0): no output"
    assert ended(host, 0) == (reason, "pylaunch check --limit n2")


def test_a_node_root_of_two_users_becomes_one_for_each() -> None:
    def hint(host: Host) -> str | None:
        return why_ended(host, Completed(("sh",), ROOT_UNTRUSTED, "", ""), None).hint

    shared = Host("n2", "10.0.0.2", node_root="/scratch/pylaunch")
    assert hint(shared) == "a root for each user: pylaunch_node_root=…{user}"
    assert hint(Host("n2", "10.0.0.2")) == "look at it on n2, then remove it"


def test_an_absent_agent_is_a_reason_in_words() -> None:
    assert str(AgentAbsentError(Host("n1", "10.0.0.1"))) == "the agent's archive is not at 10.0.0.1"
