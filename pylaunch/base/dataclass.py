"""`dataclass` and its functions as in the standard library's `dataclasses`, for the agent and the controller.

All classes share the functions, which the standard library would generate and compile for each at every start of a
program. Supported are `frozen`, `eq`, `order` and `kw_only` of classes, bases that are such classes, and of fields
defaults, factories and `repr`.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""As in `typing`, whose import takes longer than this module."""

if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
else:
    MISSING = object()
    _FIELDS = "__own_fields__"

    class _Field:
        def __init__(self, default_factory, default, repr):
            self.name = self.type = ""
            self.default = default
            self.default_factory = default_factory
            self.repr = repr

    class _StandardFields:
        """Descriptor of `__dataclass_fields__`, which `dataclasses` and msgspec read: made when it is first read."""

        def __get__(self, _instance, cls):
            import dataclasses  # noqa: PLC0415 -- not needed on nodes

            own = {"__annotations__": dict.fromkeys([each.name for each in fields(cls)], object)}
            own["__doc__"] = "Without one, the standard library writes it, in milliseconds."
            for each in fields(cls):
                if each.default_factory is not MISSING:
                    own[each.name] = dataclasses.field(default_factory=each.default_factory, repr=each.repr)
                else:
                    default = dataclasses.MISSING if each.default is MISSING else each.default
                    own[each.name] = dataclasses.field(default=default, repr=each.repr)
            made = dataclasses.dataclass(type(cls.__name__, (), own), init=False, repr=False, eq=False, kw_only=True)
            found = made.__dataclass_fields__
            for each in fields(cls):
                found[each.name].type = each.type
            cls.__dataclass_fields__ = found
            return found

    def field(*, default_factory=MISSING, default=MISSING, repr=True):
        """Return the specification of a field."""
        return _Field(default_factory, default, repr)

    def dataclass(cls=None, *, frozen=False, eq=True, order=False, kw_only=False):
        """Add the methods of a dataclass to `cls`."""
        if cls is None:
            return lambda decorated: dataclass(decorated, frozen=frozen, eq=eq, order=order, kw_only=kw_only)
        found, positional = {}, []
        for base in reversed(cls.__mro__[1:]):
            found.update((each.name, each) for each in base.__dict__.get(_FIELDS, ()))
            positional += [name for name in base.__dict__.get("__match_args__", ()) if name not in positional]
        own = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 -- as text, and without another import
        for name, kind in own.items():
            value = cls.__dict__.get(name, MISSING)
            each = value if isinstance(value, _Field) else field(default=value)
            each.name, each.type = name, kind
            if isinstance(value, _Field):
                delattr(cls, name)
                if each.default is not MISSING:
                    setattr(cls, name, each.default)
            found[name] = each
        if not kw_only:
            positional += [name for name in own if name not in positional]
        methods = {"__init__": _init, "__repr__": _repr}
        if eq:
            methods.update({"__eq__": _eq, "__hash__": _hash if frozen else None})
        if order:
            methods["__lt__"] = _lt
        if frozen:
            methods.update({"__setattr__": _frozen, "__delattr__": _frozen})
        for name, method in methods.items():
            if name not in cls.__dict__ or name == "__hash__":
                setattr(cls, name, method)
        setattr(cls, _FIELDS, tuple(found.values()))
        cls.__match_args__ = tuple(positional)
        cls.__dataclass_fields__ = _StandardFields()
        return cls

    def fields(value):
        """Return the fields of a dataclass or of its instance, in the order of their declaration."""
        return value.__own_fields__

    def replace(value, **changes):
        """Return a copy of `value` with `changes`."""
        return type(value)(**{**{each.name: getattr(value, each.name) for each in fields(value)}, **changes})

    def asdict(value):
        """Return `value` and the dataclasses within it as dictionaries."""
        if hasattr(type(value), _FIELDS):
            return {each.name: asdict(getattr(value, each.name)) for each in fields(value)}
        if isinstance(value, (list, tuple)):
            return type(value)([asdict(each) for each in value])
        return {name: asdict(each) for name, each in value.items()} if isinstance(value, dict) else value

    def _init(self, *args, **given):
        names = self.__match_args__
        values = dict(zip(names, args))
        if len(args) > len(names) or not values.keys().isdisjoint(given):
            raise TypeError(f"{type(self).__name__}: too many arguments")
        values.update(given)
        found = self.__own_fields__
        if given or len(values) < len(found):
            for each in found:
                if each.name not in values:
                    values[each.name] = _default(each, self)
            if len(values) > len(found):
                known = ", ".join(each.name for each in found)
                raise TypeError(f"{type(self).__name__}: expected {known}, got {', '.join(given)}")
        self.__dict__.update(values)
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    def _default(each, value):
        if each.default_factory is not MISSING:
            return each.default_factory()
        if each.default is MISSING:
            raise TypeError(f"{type(value).__name__}: missing argument {each.name!r}")
        return each.default

    def _values(value):
        return tuple([getattr(value, each.name) for each in value.__own_fields__])

    def _repr(self):
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__own_fields__ if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _eq(self, other):
        return _values(self) == _values(other) if type(self) is type(other) else NotImplemented

    def _lt(self, other):
        return _values(self) < _values(other) if type(self) is type(other) else NotImplemented

    def _hash(self):
        return hash(_values(self))

    def _frozen(self, name, _value=None):
        from dataclasses import FrozenInstanceError  # noqa: PLC0415 -- an error of the program

        raise FrozenInstanceError(f"cannot change {name!r} of {type(self).__name__}")
