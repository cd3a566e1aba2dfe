"""Classes of errors of a launch: its command, its variables, and the parts that it starts."""

import pytest

from pylaunch.verdict.logs.errors.error_class import error_class

CLASSES = {
    'plan.cu(12): error: identifier "half2" is undefined': "extension-build",
    "src/plan.cpp:12:10: error: expected ';'": "extension-build",
    "plan.cpp:(.text+0x12): undefined reference to `ncclGetVersion'": "extension-build",
    "ImportError: DLL load failed while importing _C: The specified module could not be found.": "library-mismatch",
    "FATAL ERROR: CALL_AND_RETRY_LAST Allocation failed - JavaScript heap out of memory": "host-oom",
    "bash: syntax error near unexpected token `('": "launcher-config",
    "train.py: line 1: import: command not found": "launcher-config",
    "from: can't read /var/mail/torch": "launcher-config",
    "TypeError: Plan(): incompatible constructor arguments. They are:  1. Plan(timeout: int)": "package-mismatch",
    "Exception: all planners must enter together: the workers have fallen out of sync": "uneven-data",
    "orbit.SSHException: No authentication methods available": "ssh-authentication",
    "Planner is not compatible with shards. Please set NPROC_PER_NODE to the number of planners.": "env-missing",
    "ValueError: Please start distributed planning with `orbit-cli` or `torchrun`.": "env-missing",
    "/bin/bash: line 0: export: `=/usr/bin/orbit': not a valid identifier": "env-syntax",
    "FileNotFoundError: 'None' does not exist": "framework-config",
    "Exception: no planner: its URL is invalid: invalid port number.": "launcher-config",
    "ValueError: Expected to find locked file /cache/plan.lock from process 1": "shared-cache-race",
    "Import Error: Cannot import name 'plan' from orbit": "package-mismatch",
    "OSError: [Errno 100] Network is down": "network-interface",
    "ERROR: running the plan using torchrun failed": "",
    "Planner: no plan, please set ORBIT_DEBUG=INFO for details": "",
    "MissingSchema: Invalid URL 'plans/a.json': No scheme supplied.": "",
    "plan.c:871: error: no orbit left": "",
    "Unable to connect to the server: Forbidden": "",
    "ERROR: 3 planners are not linked in the plan": "",
}


@pytest.mark.parametrize("text", CLASSES)
def test_the_words_of_a_launch_show_a_class(text: str) -> None:
    found = error_class(text)
    assert ("" if found is None else found.cause) == CLASSES[text]


def test_a_comparison_is_about_an_option_only_where_a_frame_shows_it() -> None:
    text = "TypeError: '<' not supported between instances of 'int' and 'str'"
    found = error_class(
        text, "/srv/train.py:8 in main", "/srv/lib/python3.11/site-packages/orbit/adam.py:3 in __init__"
    )
    assert found is not None
    assert found.cause == "framework-config"
    assert error_class(text) is None
