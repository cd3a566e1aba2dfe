"""Classes of errors of a launch: its command, its variables, and the parts that it starts."""

import pytest

from pylaunch.verdict.logs.errors.error_class import error_class

CLASSES = {
    'plan.cu(12): error: identifier "half2" is undefined': "extension-build",
    "src/plan.cpp:12:10: error: expected ';'": "extension-build",
    "plan.cpp:(.text+0x12): undefined reference to `ncclGetVersion'": "extension-build",
    "ImportError: DLL load failed while importing _C: The specified module could not be found.": "library-mismatch",
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
