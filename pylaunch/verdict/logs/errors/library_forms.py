"""Forms of messages of libraries: what they need, what they removed, and the options that they refuse. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence

LOW, MEDIUM = Confidence.LOW, Confidence.MEDIUM

_NOT = r"(?:cannot|can't|can not|could not|couldn't|unable to|failed to)"
_DEVICE = r"(?:CUDA|GPU|XPU|HPU|NPU|TPU)"

OF_LIBRARIES: tuple[tuple[str, Confidence, str], ...] = (
    ("package-mismatch", MEDIUM,
     (r"(?i:\binstall \S{1,40} from (?:the )?(?:main|master)\b|\bincompatible (?:constructor|function) arguments"
      r"|\bversion must be (?:at least|greater|[<>=]=?|newer|older|\d)"
      r"|\d(?:\.\w{1,20})? or (?:later|newer|higher|above)\b|\b(?:has|have) been (?:removed|renamed|moved) in v?\d)"
      r"|\brequires? [A-Z][\w.-]{1,40} [<>=]=? ?v?\d+\.\d")),
    ("uneven-data gpu-memory", MEDIUM, r"(?:ranks|workers|processes) (?:\w+ ){0,3}out of sync\b"),
    ("backend-missing", MEDIUM, r"(?i:\bsupport has not been built\b)"),
    ("import-path", MEDIUM,
     (rf"(?i:\b(?:be|(?:ensure|make sure)\b.{{1,90}} (?:is|are)) installed\b"
      rf"|\b{_NOT} (?:be )?import(?:ed)?\b(?! name|.{{0,200}}following error)"
      r"|\binstall (?:an? |the )?\S{1,60} (?:to use|first|if you|before|with|via|using|from|by|or)\b)")),
    ("compiler-missing", MEDIUM, rf"(?i:\b(?:{_NOT} find|no) (?:an? )?(?:\w+ )?(?:C(?:\+\+)?|host) compiler)"),
    ("gpu-missing", MEDIUM,
     (rf"(?i:\b{_DEVICE}s?(?: devices?)? (?:is|are) (?:required|needed|not available)\b"
      rf"|\brequires? (?:an? |at least (?:one|\d+) )?(?:NVIDIA |AMD )?{_DEVICE}s?(?: devices?)?(?:$|[.,;:]))")),
    ("hub-access", MEDIUM, r"(?i:\bauthentication failed\b)"),
    ("hub-unreachable hub-access", MEDIUM, r"(?i:\b(?:check your|no|not have) (?:internet|network) \w)"),
    ("env-syntax", MEDIUM,
     (r"\b(?:[A-Z]{3,}_[A-Z_\d]+|[A-Z]{3,}(?= env))(?: env\w* var\w*)? must be"
     r" (?!set|def|provided)")),
    ("framework-config", MEDIUM,
     r"(?i:\balready exists\b.{0,120}(?:overwrite|exist_ok|--\w|another|different)|\btrust_remote_code=)"),
)  # fmt: skip
"""Classes, confidence and form of what a library needs of the environment, as in `OF_TOOLS`."""

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
