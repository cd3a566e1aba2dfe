"""Failed imports, and exceptions of libraries about the options that they refuse. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence

LOW = Confidence.LOW

OF_IMPORTS = (
    ("import-path package-mismatch", LOW,
     (r"^ImportError: (?!.{0,200}(?:import name|\.so\b|symbol|DLL))|^\w{2,20}Error: [\w-]{2,40} is not available\.?$")),
)  # fmt: skip
"""The form of any other failed import, after all others."""

_REFUSES = re.compile(
    r"^(?:[\w.]+\.)?(?:Key|Value|Assertion|NotImplemented|Runtime|Argument|\w*(?:Config\w*|Usage|Click|CLI|Launch|Validation"
    r"|Hydra))"
    r"(?:Error|Exception): |^[\w.-]{1,40}\.py: error: "
)
_OF_VALUES = re.compile(
    r"(?i)\b(?:tensors?(?![ _-]?(?:parallel|model))|shapes?|ndim|\d-?d|dim(?:ension)?s|logits|labels|input_ids|"
    r"attention_mask|hidden_states|pixel_values|images?|arrays?|gradients?|requires_grad|indices|elements"
    r"|inputs?|per channel|should never|to unpack|bug)\b|\bself\.| of size \d"
)
"""Words of an exception about values that the program computes."""

_OF_OPTIONS = re.compile(
    r"(?i)\b(?:must(?! be (?:[<>=!]=? ?[a-z_]|called)| define| implement| return| override)|mutually)\b"
    r"|\b(?:should|ha(?:s|ve) to|needs? to) (?:not )?(?:be|have|use|match|contain|end with|start with)\b"
    r"|\bonly (?:\w+ )?(?:supports?|supported|works?|allowed|valid|available|compatible|accepts?)\b"
    r"|\bnot (?:yet |currently )?(?:supported|compatible|allowed|permitted|implemented)\b"
    r"|\b(?:does not|doesn't|don't) (?:support|allow|accept)\b"
    r"|\b(?:cannot|can't|can not|do not|don't|must not) (?:pass|specify|provide|set|use|have|combine|mix|enable)\b"
    r"|\brequires?\b(?! grad)"
)
_COMPUTES = re.compile(r" in (?:_?forward\w*|__call__|_?(?:compute|preprocess)\w*)$")
"""Frames in which libraries work on values."""

_CHECKS = re.compile(
    r"/(?:hparams|configs?|arguments)/\w+\.py:\d+ in "
    r"|/(?:\w+_)?(?:arguments?|args|config(?:s|uration)?(?:_\w+)?|options?|hparams|schemas?"
    r"|validat\w+|settings)\.py:\d+ in "
    r"| in (?:__post_init__|model_post_init|_?(?:validate|verify)(?!_model_)\w*"
    r"|(?:check|parse)_(?:arg|config|option|setting)\w*)$"
)
"""Frames in which programs check their options."""


def refused_option(text: str, raised_at: str) -> str:
    """Return why an exception is about an option: its words, or the frame that raised it; "" for another exception."""
    if _REFUSES.match(text) is None or _OF_VALUES.search(text) or _COMPUTES.search(raised_at):
        return ""
    if _CHECKS.search(raised_at):
        return f"raised where options are checked: {raised_at}"
    found = _OF_OPTIONS.search(text)
    return f"its words: {found[0].strip()[:80]}" if found else ""
