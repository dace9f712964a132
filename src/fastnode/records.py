"""``dataclass`` as in the standard library, at almost no cost until the class is used.

The standard library compiles six functions for a frozen class while its module is imported.  The package has some two
hundred such classes, and that was two fifths of the time of a start.  Here ``__init__`` is made when the first instance
is, by the standard library itself, and the other methods are the same few functions for all classes.

Options that are not supported (``order``, ``unsafe_hash`` and others) raise TypeError.  ``field``, ``fields`` and
``replace`` come from :mod:`dataclasses`.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

#: Placeholder for the value of a field that has a factory.
_NOT_GIVEN: Final = object()


def _make(cls: Any, *, frozen: bool, slots: bool, eq: bool, kw_only: bool) -> Any:
    # Without a text the standard library would write down the signature, which takes longer than all the rest.
    doc = cls.__doc__
    cls.__doc__ = doc or " "
    made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
    made.__doc__ = doc
    fields = dataclasses.fields(made)
    own = vars(made)
    _check_order(fields)
    made.__init__ = _init_in_time(made, fields, frozen=frozen)
    if "__repr__" not in own:
        made.__repr__ = _repr_of([field.name for field in fields if field.repr])
    compared = [field.name for field in fields if field.compare]
    if eq and "__eq__" not in own:
        _add_comparison(made, compared, frozen=frozen)
    if frozen:
        names = frozenset(field.name for field in fields)
        made.__setattr__, made.__delattr__ = _refusals(made, names)
        if slots and "__getstate__" not in own:
            made.__getstate__, made.__setstate__ = _state_of([field.name for field in fields])
    return made


# ---- __init__ --------------------------------------------------------------------------------------


def _init_in_time(cls: Any, fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool) -> Any:
    """An ``__init__`` that puts the true one in its place when it is called for the first time."""

    def initialize(self: Any, *arguments: Any, **keywords: Any) -> None:
        cls.__init__ = made = _true_init(cls, fields, frozen=frozen)
        made(self, *arguments, **keywords)

    return initialize


def _true_init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool) -> Any:
    """Compiled from its text, as the standard library does.  A value goes past a ``__setattr__`` that refuses."""
    names: dict[str, Any] = {"_not_given": _NOT_GIVEN, "_set": object.__setattr__}
    parameters, lines = ["self"], []
    for field in sorted(fields, key=lambda field: bool(field.kw_only)):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            value = f"{name} if {name} is not _not_given else _make_{name}()" if field.init else f"_make_{name}()"
            default = "=_not_given"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        else:
            default = ""
        if field.init:
            if field.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(name + default)
        elif not default:
            continue  # __post_init__ sets it
        elif field.default_factory is dataclasses.MISSING:
            value = f"_default_{name}"
        lines.append(_assignment(cls, name, value, names, frozen=frozen))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + ("\n ".join(lines) or "pass")
    made: dict[str, Any] = {}
    exec(text, names, made)
    made["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return made["__init__"]


def _assignment(cls: Any, name: str, value: str, names: dict[str, Any], *, frozen: bool) -> str:
    place = getattr(cls, name, None)
    if not frozen:
        return f"self.{name} = {value}"
    if isinstance(place, MemberDescriptorType):
        names[f"_set_{name}"] = place.__set__
        return f"_set_{name}(self, {value})"
    return f"_set(self, {name!r}, {value})"


def _check_order(fields: tuple[dataclasses.Field[Any], ...]) -> None:
    has_default = ""
    for field in fields:
        if not field.init or field.kw_only:
            continue
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            has_default = field.name
        elif has_default:
            raise TypeError(f"field {field.name!r} without a default follows {has_default!r}, which has one")


# ---- the rest --------------------------------------------------------------------------------------


def _repr_of(names: list[str]) -> Any:
    def show(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return show


def _add_comparison(cls: Any, names: list[str], *, frozen: bool) -> None:
    values: Any = attrgetter(*names) if names else lambda _: ()

    def is_equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hash_of(self: Any) -> int:
        return hash(values(self))

    cls.__eq__ = is_equal
    if "__hash__" not in vars(cls) or vars(cls)["__hash__"] is None:
        cls.__hash__ = hash_of if frozen else None


def _refusals(cls: Any, names: frozenset[str]) -> tuple[Any, Any]:
    """``__setattr__`` and ``__delattr__``; a class below that is not frozen may have attributes of its own."""

    def refuse_set(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return refuse_set, refuse_delete


def _state_of(names: list[str]) -> tuple[Any, Any]:
    """For copies and pickles of frozen instances without a dictionary."""

    def get_state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def set_state(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return get_state, set_state


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """As :func:`dataclasses.dataclass`."""

        def make(cls):
            return _make(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)

        return make if cls is None else make(cls)
