"""Render Jinja templates that use only variables of the host itself.

`ansible-inventory` prints templates unrendered. A key may refer to the host's other variables
(`fabric_address: "{{ ib_address }}"`); templates that need facts, lookups or Ansible's filters are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

DEPTH = 8
"""Number of times that rendering may yield another template."""


def resolved(value: object, host: str, variables: Mapping[str, object]) -> object:
    """Return `value`, or its rendered text when it is a template.

    Raises ValueError with the reason for a template that cannot be rendered without a play.
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
