import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.base.untrusted_json import MAX_DEPTH, UntrustedJsonError, parse, parse_object

LIMIT = 1 << 20


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "Expecting value"),
        (b"{bye}", "Expecting property name"),
        (b"\xff\xfe\xff", "utf-16"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b'{"a": 9223372036854775808}', "64 bits"),
        (b"1" * 5000, "digits"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "longer than"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} deep"),
        (b'"' + b"x" * LIMIT + b'"', "longer than"),
    ],
)
def test_values_out_of_bounds_are_refused_with_the_reason(text: bytes, complaint: str) -> None:
    with pytest.raises(UntrustedJsonError, match=complaint):
        parse(text, LIMIT)


def test_depth_up_to_the_bound_is_accepted() -> None:
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, LIMIT) is not None


def test_only_an_object_is_parsed_as_an_object() -> None:
    assert parse_object(b'{"a": 1}', LIMIT) == {"a": 1}
    with pytest.raises(UntrustedJsonError, match="expected an object, got list"):
        parse_object(b"[]", LIMIT)


def test_escaped_bytes_are_kept_and_other_surrogates_are_replaced() -> None:
    assert parse(rb'"\udcff"', LIMIT) == "\udcff"
    assert parse(rb'{"\ud800": ["\udfff"]}', LIMIT) == {"\ufffd": ["\ufffd"]}


@given(st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_bytes_are_a_value_or_refused(text: bytes) -> None:
    try:
        value = parse(text, LIMIT)
    except UntrustedJsonError:
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "surrogateescape")
