"""Forms of messages of libraries: what they need, what they removed, and the options that they refuse. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence

LOW, MEDIUM = Confidence.LOW, Confidence.MEDIUM

_NOT = r"(?:cannot|can't|can not|could not|couldn't|unable to|failed to)"
_DEVICE = r"(?:CUDA|GPU|XPU|HPU|NPU|TPU)"
_SECRET = r"(?:(?:access|auth\w*|hub|hf|user|bearer|api)[ _-]?(?:token|key)|credential)s?"

OF_LIBRARIES: tuple[tuple[str, Confidence, str], ...] = (
    ("package-mismatch", MEDIUM,
     (r"(?i:\bversion must be (?:at least|greater|[<>=]=?|newer|older|\d)"
     r"|\bminimum (?:required )?(?:\S{2,40} ){0,2}version\b"
     r"|\bat least version \d|\d(?:\.\w{1,20})? or (?:later|newer|higher|above)\b"
     r"|\bnot (?:supported|available) (?:in|by) (?:this|your|the installed) version\b|\binstalled version of \S{1,60}"
     r" (?:does|is|do|can|has)\b|\b(?:has|have) been (?:removed|deprecated|renamed|moved)\b"
     r"|\b(?:is|are|was|were) (?:now )?(?:deprecated|removed)\b|\bno longer (?:experimental|supported|exists?|supports?"
     r"|part of)\b"
     r"|\b(?:upgrade|downgrade|update) (?:to )?\S{2,60} ?(?:to|[<>=]=) ?(?:version )?v?\d)"
      r"|\brequires? [A-Z][\w.-]{1,40} [<>=]=? ?v?\d+\.\d")),
    ("backend-missing", MEDIUM,
     (r"(?i:\bsupport has not been built\b|\brequires? \S{1,40} (?:\w+ ){0,2}with \S{1,40} support\b"
     r"|\bnot (?:available|supported|included) in (?:this|your) (?:build|installation)\b"
     r"|\btorch\.distributed is not available\b)")),
    ("import-path", MEDIUM,
     (rf"(?i:\b(?:be|(?:ensure|make sure)\b.{{1,90}} (?:is|are)) installed\b"
      rf"|\b{_NOT} (?:be )?import(?:ed)?\b(?! name|.{{0,200}}following error)"
     r"|\b(?:library|package) but it was not found\b"
     r"|\bmissing (?:\w+ ){0,2}(?:dependenc(?:y|ies)|librar(?:y|ies)|packages?)\b|\bis required to (?:build|compile)\b"
     r"|\binstall (?:an? |the )?\S{1,60}"
     r" (?:to use|first|if you|before|with|via|using|from|by|or)\b)")),
    ("file-missing import-path", MEDIUM,
     (r"(?i:\b(?:ffmpeg|git|nvcc|ninja|cmake|conda|docker|pdsh|java|executable|binary|program) (?:\S{1,60} )?"
     r"(?:was |is )?not found\b)")),
    ("compiler-missing", MEDIUM, rf"(?i:\b(?:{_NOT} find|no) (?:an? )?(?:\w+ )?(?:C(?:\+\+)?|host) compiler)"),
    ("gpu-missing", MEDIUM,
     (rf"(?i:\b{_DEVICE}s?(?: devices?)? (?:(?:is|are) (?:required|needed|not available)|.{{0,40}}\bunavailable)"
     rf"|\bno (?:available|visible|usable) {_DEVICE}|\b(?:requires?|needs?|should run on) (?:an? "
     rf"|at least (?:one|\d+) )?"
     rf"(?:NVIDIA |AMD )?{_DEVICE}s?(?: devices?| nodes?)?(?:$|[.,;:]| to | for | but ))")),
    ("gpu-memory", MEDIUM, r"(?i:\bdoes not fit\b.{0,80}\b(?:memory|GPUs?|cuda)\b)"),
    ("device-placement", MEDIUM,
     (r"(?i:\bon the same (?:GPU|type of devices)\b|\bincompatible devices\b|\bdevice mismatch\b"
     r"|\b(?:must be|requires?|expects?) (?:an? )?(?:CUDA|GPU) tensors?\b)")),
    ("group-missing", MEDIUM,
     (r"(?i:\bno distributed (?:environment|group|backend) (?:is|was|has)"
      r"|\b(?:torch\.)?(?:dist(?:ributed)?(?! backend)|parallel"
     r" state|device mesh|rank \d{1,5})(?: \w{1,12})? (?:(?:is|was|are|has been) )?not (?:yet "
     r"|been )?initiali[sz]ed)")),
    ("env-missing", MEDIUM,
     r"(?i:\benvironment variables? \S{1,80} (?:was |is )?not found|\bnot found in the (?:current )?environment\b)"),
    ("hub-access", MEDIUM,
     (rf"(?i:\bunauthori[sz]ed\b|\bauthentication failed\b|\baccess ?denied\b"
     rf"|\b{_SECRET} (?:(?:is|are|was) )?(?:not (?:set|found|provided|valid|configured)|missing|invalid"
     r"|expired|required)\b"
     rf"|\b(?:valid|missing|expired|locate|no|your) (?:\S{{1,20}} )?{_SECRET}\b|\bverify your token\b"
     r"|\bno token found\b)")),
    ("hub-unreachable hub-access", MEDIUM, r"(?i:\b(?:check your|no|not have) (?:internet|network) \w)"),
    ("hub-unreachable", MEDIUM,
     (rf"(?i:\b{_NOT} (?:download|fetch|reach|retrieve)\b.{{0,120}}https?://(?!localhost|127|10\.|192\.)"
     r"|\bno longer available for (?:automatic )?download)")),
    ("file-missing", MEDIUM, r"(?i:\b(?:does not exist|(?:not|nothing) found|no such path) ?: \S{0,100}/)"),
    ("env-syntax", MEDIUM,
     (r"\b(?:[A-Z]{3,}_[A-Z_\d]+|[A-Z]{3,}(?= env))(?: env\w* var\w*)? must be"
     r" (?!set|def|provided)")),
    ("config-syntax", MEDIUM,
     (r"(?i:\b(?:not (?:an? )?valid|invalid) (?:json|ya?ml|toml)\b(?! (?:response|format in))|\bparsing (?:json"
     r"|ya?ml|toml)\b)")),
    ("script-arguments", MEDIUM,
     r"OverrideParseException|(?i:\b(?:unknown|extra|unexpected|unused) (?:command.line )?arg(?:ument)?s?\b(?! type))"),
    ("checkpoint-mismatch", MEDIUM,
     (r"(?i:\bnot (?:found |present |exist )?in (?:the )?(?:\w+ )?(?:state_?dict|checkpoint)\b"
     r"|\bmissing (?:from|in) (?:the )?(?:state_?dict|checkpoint)\b"
     r"|\b(?:state_?dict|checkpoint) (?:does not|doesn't) (?:contain|have|include)"
     r"|\b(?:saved|trained|created|written) with (?:an? )?different\b)")),
    ("data-damaged", MEDIUM,
     (r"(?i:\b(?:dataset|data|file|record|shard|index) (?:may be|is|seems|appears|might be) (?:\w+ )?"
     r"(?:corrupt|truncated|damaged|incomplete)|\binvalid or corrupt|\bis not an? (?:\w+ )?(?:wav|tar|zip|gzip|audio"
     r"|parquet|arrow|video)\b)")),
    ("data-damaged framework-config", MEDIUM,
     (r"(?i:\b(?:columns?|fields?)\b.{0,80}\b(?:not (?:found|in|present|exist)|missing|(?:does|do) not exist"
     r"|but found)\b|\bdataset (?:must|should|does not|doesn't) (?:have|contain|include)\b)")),
    ("file-missing checkpoint-mismatch", MEDIUM,
     rf"(?i:\b{_NOT} (?:resume|restore) from (?:the )?checkpoint\b|\b{_NOT} find (?:any )?(?:\w+ ){{0,3}}weights\b)"),
    ("checkpoint-mismatch model-unsupported", MEDIUM,
     r"no module or parameter named '|^RuntimeError: weight \S{1,200} does not exist"),
    ("resources-missing gpu-missing", MEDIUM, r"(?i:\bavailable GPUs? \S{1,10} (?:is )?(?:less|fewer|smaller) than\b)"),
    ("model-unsupported", MEDIUM, r"(?i:\bunrecogni[sz]ed (?:(?:\w+ ){1,3}class|model)\b)"),
    ("framework-config", MEDIUM,
     (r"(?i:\balready exists\b.{0,120}(?:overwrite|exist_ok|--\w|another|different)"
     r"|\bnot found in the (?:base )?model\b|\btrust_remote_code="
     r"|\b(?:entry|key|field|option|argument)s? .{0,40}\bin (?:the |your )?(?:\w+ )?config\b|\bmissing required"
     r" (?:config\w*|arguments?|fields?|parameters?|keys?|options?)\b)")),
    ("program-error", LOW,
     (r"(?i:\bcall(?:ed|ing)? \S{2,60} (?:first|before)\b|\bdid you forget to\b"
     r"|\bhas not been (?:set|called|prepared|fitted|set up)\b)")),
    ("framework-config", MEDIUM,
     (r"ConfigCompositionException|Interpolation\w{3,10}Error|MissingMandatoryValue"
     r"|(?i:\brequires? \S{1,60}(?: \w+)? to be (?:enabled|disabled|set|used)\b)")),
)  # fmt: skip
"""Classes, confidence and form of what a library needs of the environment, as in `OF_TOOLS`."""

OF_IMPORTS = (
    ("import-path package-mismatch", LOW,
     (r"^ImportError: (?!.{0,200}(?:import name|\.so\b|symbol|DLL))|^\w{2,20}Error: [\w-]{2,40} is not available\.?$")),
)  # fmt: skip
"""The form of any other failed import, after all others."""

_REFUSES = re.compile(
    r"^(?:[\w.]+\.)?(?:Value|Assertion|NotImplemented|Runtime|Argument|\w*(?:Config\w*|Usage|Click|CLI|Launch|Validation"
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
    r"(?i)\b(?:must(?! be (?:[<>=!]=? ?[a-z_]|called)| define| implement| return| override)"
    r"|cannot both|not both|mutually|either .{1,60} or|at (?:least|most) one of|only one of)\b"
    r"|\b(?:should|ha(?:s|ve) to|needs? to) (?:not )?(?:be|have|use|match|contain|end with|start with)\b"
    r"|\brequires?\b(?! grad)|\b(?:is|are) (?:mandatory|required)\b|\bonly (?:\w+ )?(?:supports?|supported"
    r"|works?|allowed"
    r"|valid|available|compatible|accepts?)\b|\bnot (?:yet |currently )?(?:supported|supporting|compatible"
    r"|allowed|permitted"
    r"|implemented|an? (?:valid|supported|known)|in the list|one of)\b|\b(?:does not|doesn't|don't) (?:support"
    r"|allow|accept)\b"
    r"|\b(?:cannot|can't|can not|do not|don't|must not) (?:pass|specify|provide|set|use|have|combine|mix|enable"
    r"|supply)\b"
    r"|\b(?:should|can) only be (?!called)|\b(?:is|are) not enabled\b|\bexpected \S{1,60} to be \S+ or\b"
    r"|\bcan(?:not|'t) be (?:set|used|enabled|specified|combined|negative|empty)\b"
    r"|\bboth\b.{1,80}\b(?:specified|set|provided|given|enabled|passed)\b|\bis (?:set|enabled) but\b"
    r"|\bconflicts? with\b|\byou (?:cannot|can't|can not) \w"
    r"|\b(?:please|make sure|try to|instead,?) (?:to )?(?:manually |explicitly )?(?:pass|set|specify"
    r"|provide|use|enable|disable|remove|choose|launch|run)\b"
    r"|\b(?:supported|available|valid|allowed|possible|known|accepted|registered"
    r"|expected)(?: \w+){0,3} ?(?:are ?|is)?:? ?[\[{('`]"
)
_UNKNOWN = re.compile(
    r"(?i)Error: (?:.{0,60}: )?\b(?:unsupported|unknown|unrecogni[sz]ed|invalid|illegal|conflicting|incompatible) "
    r"(?!literal|state|argument \d|char|escape|format code|start byte|syntax|operand|(?:json|response|data"
    r"|image|format)\b)[`'\"]?[a-z]"
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
    found = _OF_OPTIONS.search(text) or (None if text.startswith("RuntimeError") else _UNKNOWN.search(text))
    return f"its words: {found[0].strip()[:80]}" if found else ""
