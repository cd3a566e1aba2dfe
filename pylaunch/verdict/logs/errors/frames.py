"""Class of an exception that a log cuts off, by the last frame of its traceback and its line of the source. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.errors.error_class import LOW, MEDIUM, ErrorClass, error_class

_FORMS: tuple[tuple[str, Confidence, str], ...] = (
    ("env-missing", MEDIUM, r"_get_env_or_raise|_env_error\(|/os\.py:\d+ in __getitem__"),
    ("env-missing", LOW, r"os\.environ\[['\"]\w+['\"]\]"),
    ("extension-build", MEDIUM, r"CUDA_MISMATCH_MESSAGE|/cpp_extension\.py:\d+ in _(?:run|write|check)_\w+"),
    ("gpu-missing driver-old", LOW, r"torch\._C\._cuda_init\(\)"),
    ("checkpoint-damaged", LOW, r"PyTorchFileReader\(|pickle_module\.load\("),
    ("script-arguments", LOW, r"/argparse\.py:\d+ in "),
)  # fmt: skip
"""Classes, confidence and form of "PATH:LINE in FUNCTION: SOURCE"."""

_RAISE = re.compile(r": raise (?P<type>[\w.]{1,200})\((?:[rfb]{0,2}(?P<quote>['\"]))(?P<words>.{3,300})")


def class_of_frame(shown: str) -> ErrorClass | None:
    """Return the class that the innermost frame shows; None where it does not."""
    why = "the last frame, and its line of the source"
    if (raised := _RAISE.search(shown)) and (found := error_class(f"{raised['type']}: {raised['words']}")):
        return ErrorClass(found.cause, found.confidence, why, found.also)
    for causes, confidence, form in _FORMS:
        if re.search(form, shown):
            cause, *also = causes.split()
            return ErrorClass(cause, confidence, why, tuple(also))
    return None
