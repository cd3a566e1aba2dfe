"""The part of Jinja that needs no play: variables of the host itself.

`ansible-inventory` prints templates as they are written. A key we read may refer to the host's other variables
(`fabric_address: "{{ ib_address }}"`); what needs facts, lookups or Ansible's filters is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping

DEPTH = 8
"""How many times a value may lead to another template."""


def resolved(value: object, host: str, variables: Mapping[str, object]) -> object:
    """`value` for `host`: itself, or its text when it is a template.

    Raises ValueError saying why a template cannot be rendered without a play.
    """
    if not _is_template(value):
        return value
    from jinja2 import StrictUndefined, TemplateError  # noqa: PLC0415 - 15 ms that few inventories need
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    known = {"inventory_hostname": host, "inventory_hostname_short": host.split(".")[0], **variables}
    known.setdefault("ansible_host", host)
    text = str(value)
    for _ in range(DEPTH):
        try:
            text = environment.from_string(text).render(known)
        except (TemplateError, TypeError, ArithmeticError) as error:
            raise ValueError(
                f"cannot be rendered before a play runs: {error} in {value!r}; "
                "write the value, or refer to variables of the host alone"
            ) from None
        if not _is_template(text):
            return text
    raise ValueError(f"refers to itself: {value!r}")


def _is_template(value: object) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value)
