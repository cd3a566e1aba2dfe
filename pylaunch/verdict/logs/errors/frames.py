"""Class of an exception that a log cuts off, by the last frame of its traceback and its line of the source. Pure."""

import re

from pylaunch.verdict.logs.errors.error_class import MEDIUM, ErrorClass

_FORMS = {
    "env-missing": r"_get_env_or_raise|_env_error\(|/os\.py:\d+ in __getitem__",
    "extension-build": r"/cpp_extension\.py:\d+ in _check_cuda_version",
}
"""Class and form of "PATH:LINE in FUNCTION: SOURCE"."""


def class_of_frame(shown: str) -> ErrorClass | None:
    """Return the class that the innermost frame shows; None where it does not."""
    cause = next((cause for cause, form in _FORMS.items() if re.search(form, shown)), None)
    return None if cause is None else ErrorClass(cause, MEDIUM, "the last frame, and its line of the source")
