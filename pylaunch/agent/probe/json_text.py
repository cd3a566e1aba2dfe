"""Write plain values as JSON. `json`, which imports `re`, would cost a host 10 ms."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def json_text(value: Any) -> str:
    """Return `value` as JSON, as `json.dumps` would."""
    kind = type(value)
    if kind is str and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return repr(value)
    if kind is list or kind is tuple:
        return f"[{', '.join(map(json_text, value))}]"
    if kind is dict and all(type(name) is str for name in value):
        return f"{{{', '.join([f'{json_text(name)}: {json_text(each)}' for name, each in value.items()])}}}"
    if kind is float and abs(value) < 1e15:  # Not for infinities and NaN.
        return repr(value)
    import json  # noqa: PLC0415 -- only for texts with quotes, controls and other alphabets

    return json.dumps(value)
