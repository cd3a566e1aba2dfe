"""Subject of a text: the module, file, variable, port or host that it names. Pure."""

from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import fields_of

LONGEST_VALUE = 120
"""Characters of one value of a log in a verdict."""


def with_subject(match: LogMatch) -> str:
    """Return the meaning of a match, with its subject where the text names it."""
    means, subject = match.signature.means, subject_of(match)
    if not subject:
        return means
    return f"{means} ({subject})" if ":" in means else f"{means}: {subject}"


def subject_of(match: LogMatch) -> str:
    """Return what the text of a match is about; "" where it does not show it. Values are bounded and safe to show."""
    groups = {name: _shortened(value) for name, value in match.groups.items() if value.strip()}
    forms = (form for form in match.signature.shows if set(fields_of(form)) <= groups.keys())
    return next((form.format_map(groups) for form in forms), "")


def _shortened(value: str) -> str:
    """Return a value in its line: the end of a long path shows more than its beginning."""
    shown = visible_line(value.strip().rstrip(".,"))
    if len(shown) <= LONGEST_VALUE:
        return shown
    return "…" + shown[-LONGEST_VALUE:] if "/" in shown else shown[:LONGEST_VALUE] + "…"
