"""Our dataclasses behave as those of the standard library, and its functions and msgspec accept them."""

import dataclasses
import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest

from pylaunch.base import dataclass as ours

SOURCE = '''
from __future__ import annotations
from {module} import dataclass, field

@dataclass(frozen=True)
class Part:
    name: str

@dataclass(frozen=True)
class Whole:
    number: int
    """Docstring of a field."""

    parts: list[Part] = field(default_factory=list)
    by_name: dict[str, Part] = field(default_factory=dict)
    text: str = "text"
    key: str = field(default="", repr=False)

    @property
    def double(self) -> int:
        return 2 * self.number

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(self.number)

@dataclass
class Changing:
    number: int = 0

@dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int = 0

@dataclass(eq=False)
class Same:
    number: int

@dataclass(frozen=True, kw_only=True)
class Named:
    text: str = ""
    number: int

@dataclass(frozen=True)
class Flags(Named, Part):
    text: str = "other"
    more: list[int] = field(default_factory=list)
'''


def made(module: str) -> Any:
    found = ModuleType("made")
    sys.modules["made"] = found
    exec(SOURCE.format(module=module), found.__dict__)
    return found


@pytest.fixture(params=["dataclasses", "pylaunch.base.dataclass"], ids=["standard library", "ours"])
def classes(request: pytest.FixtureRequest) -> Any:
    return made(request.param)


def test_values(classes: Any) -> None:
    part = classes.Part("a")
    whole = classes.Whole(1, [part], key="secret")
    assert (whole.number, whole.parts, whole.by_name, whole.text, whole.double) == (1, [part], {}, "text", 2)
    assert whole == classes.Whole(number=1, parts=[classes.Part("a")], key="secret")
    assert whole != classes.Whole(2, [part])
    assert part != classes.Changing()
    assert part != "a"
    assert repr(whole) == "Whole(number=1, parts=[Part(name='a')], by_name={}, text='text')"
    assert classes.Whole(1).parts is not classes.Whole(1).parts
    assert {classes.Part("a"), classes.Part("a")} == {part}
    match whole:
        case classes.Whole(number, [classes.Part("a")]):
            assert number == 1
        case _:
            pytest.fail("expected a match")


def test_wrong_arguments(classes: Any) -> None:
    for arguments, keywords in (((), {}), ((1, [], {}, "", "", 6), {}), ((1,), {"number": 1}), ((1,), {"other": 1})):
        with pytest.raises(TypeError):
            classes.Whole(*arguments, **keywords)
    with pytest.raises(ValueError, match="-1"):
        classes.Whole(-1)


def test_frozen_and_changing(classes: Any) -> None:
    whole, changing = classes.Whole(1), classes.Changing()
    with pytest.raises(dataclasses.FrozenInstanceError):
        whole.number = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del whole.text
    changing.number = 3
    assert changing == classes.Changing(3)
    with pytest.raises(TypeError):
        hash(changing)


@pytest.mark.parametrize("functions", [dataclasses, ours], ids=["standard library", "ours"])
def test_functions(functions: Any) -> None:
    classes = made("pylaunch.base.dataclass")
    whole = classes.Whole(1, [classes.Part("a")], {"b": classes.Part("b")})
    assert functions.replace(whole, number=2) == classes.Whole(2, whole.parts, whole.by_name)
    assert functions.asdict(whole) == {
        "number": 1, "parts": [{"name": "a"}], "by_name": {"b": {"name": "b"}}, "text": "text", "key": ""
    }  # fmt: skip
    found = {each.name: (each.type, each.default_factory is not functions.MISSING) for each in functions.fields(whole)}
    assert list(found) == ["number", "parts", "by_name", "text", "key"]
    assert (found["parts"], found["text"]) == (("list[Part]", True), ("str", False))
    with pytest.raises(TypeError):
        functions.replace(whole, other=1)


def test_bases_and_fields_by_name_only(classes: Any) -> None:
    flags = classes.Flags("a", number=1)
    assert repr(flags) == "Flags(name='a', text='other', number=1, more=[])"
    assert flags == classes.Flags(name="a", number=1, text="other", more=[])
    assert classes.Flags.__match_args__ == ("name", "text", "more")
    assert [each.name for each in dataclasses.fields(flags)] == ["name", "text", "number", "more"]
    assert dataclasses.replace(flags, number=2).number == 2
    assert msgspec.json.decode(b'{"name": "b", "number": 3}', type=classes.Flags) == classes.Flags("b", number=3)
    assert classes.Named(number=1).text == ""
    for arguments in ((), ("text", 1)):
        with pytest.raises(TypeError):
            classes.Named(*arguments)
