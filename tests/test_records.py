"""Classes of records behave as those of the standard library, from which they differ in when they are made."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar

import pytest

from fastnode import records

BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, records.dataclass], ids=["standard", "own"])


def made(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        unit: ClassVar[str] = "m"
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="", repr=False)

        @property
        def sum(self) -> int:
            return self.x + self.y

    return Point


@records.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: tuple[int, ...] = ()


@BOTH
def test_values_come_by_position_by_name_and_from_defaults(dataclass: Any) -> None:
    point = made(dataclass)
    assert (point(1).x, point(1).y, point(1).tags, point(1).sum) == (1, 2, [], 3)
    assert point(1, y=5) == point(x=1, y=5) == point(1, 5)
    assert point(1).tags is not point(1).tags
    for arguments, keywords in (((), {}), ((1, 2, [], "", 5), {}), ((1,), {"z": 1}), ((1,), {"x": 1})):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            point(*arguments, **keywords)


@BOTH
def test_equality_hash_and_text(dataclass: Any) -> None:
    point, other = made(dataclass), made(dataclass)
    assert point(1) == point(1, 2, ["not compared"])
    assert point(1) != point(3)
    assert point(1) != other(1), "another class"
    assert point(1) != (1, 2, "")
    assert len({point(1), point(1), point(2)}) == 2
    assert repr(point(1, note="hidden")).endswith("Point(x=1, y=2, tags=[])")
    assert point.__doc__ == "A place."


@BOTH
def test_what_is_frozen_stays_as_it_is(dataclass: Any) -> None:
    point = made(dataclass)(1)
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError):
            change()
    assert not hasattr(point, "__dict__")
    assert replace(point, y=7) == type(point)(1, 7)
    assert [item.name for item in fields(point)] == ["x", "y", "tags", "note"]
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "tags": [], "note": ""}


@BOTH
def test_what_is_not_frozen_can_be_changed_and_has_no_hash(dataclass: Any) -> None:
    @dataclass(slots=True)
    class Count:
        number: int = 0

    count = Count()
    count.number += 1
    assert count == Count(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(count)


@BOTH
def test_fields_by_name_only_are_inherited(dataclass: Any) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Base:
        name: str

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        age: int = 3

    assert Derived(name="a") == Derived(name="a", age=3)
    assert [item.name for item in fields(Derived)] == ["name", "age"]
    with pytest.raises(TypeError):
        Derived("a")
    with pytest.raises(FrozenInstanceError):
        Derived(name="a").name = "b"


@BOTH
def test_fields_by_name_only_come_after_the_others(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True)
    class Mixed:
        a: int = field(default=1, kw_only=True)
        b: int
        c: list[int] = field(default_factory=list, init=False)
        d: int = field(default=4, init=False)

    assert Mixed(2) == Mixed(b=2, a=1)
    assert (Mixed(2, a=5).a, Mixed(2).c, Mixed(2).d) == (5, [], 4)
    for arguments, keywords in (((2, 3), {}), ((2,), {"c": []}), ((2,), {"d": 1})):
        with pytest.raises(TypeError):
            Mixed(*arguments, **keywords)


@BOTH
def test_a_field_without_a_default_behind_one_with_a_default_is_refused(dataclass: Any) -> None:
    with pytest.raises(TypeError, match="default"):

        @dataclass
        class Wrong:
            a: int = 1
            b: int


@BOTH
def test_what_a_class_says_itself_is_kept(dataclass: Any) -> None:
    @dataclass(frozen=True, eq=False)
    class ByIdentity:
        x: int

    @dataclass(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert ByIdentity(1) != ByIdentity(1)
    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 7)


@BOTH
def test_more_is_done_after_the_fields_are_set(dataclass: Any) -> None:
    @dataclass
    class Doubled:
        x: int
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            self.twice = 2 * self.x

    @dataclass
    class Tripled(Doubled):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.twice += self.x

    assert (Doubled(3).twice, Tripled(3).twice) == (6, 9)


@BOTH
def test_a_class_without_fields_and_one_that_is_not_a_record_below_it(dataclass: Any) -> None:
    @dataclass(frozen=True)
    class Empty:
        pass

    class Below(Empty):
        def __init__(self) -> None:
            super().__init__()
            self.more = 1

    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert Below().more == 1


def test_nothing_is_added_to_what_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Kept(1).new = 2  # type: ignore[attr-defined]


def test_copies_and_pickles_are_equal() -> None:
    for kept in (Kept(1), Kept(2, (3, 4))):
        assert copy.copy(kept) == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept)) == kept


def test_the_first_instance_makes_the_init_for_all() -> None:
    point = made(records.dataclass)
    before = point.__init__
    assert point(1) == point(1)
    assert point.__init__ is not before
    assert list(inspect.signature(point).parameters) == ["x", "y", "tags", "note"]
    assert point.__init__.__qualname__.endswith("Point.__init__")


@pytest.mark.parametrize("option", ["order", "unsafe_hash", "init", "repr", "weakref_slot"])
def test_an_option_that_is_not_here_is_refused(option: str) -> None:
    with pytest.raises(TypeError):
        records.dataclass(**{option: True})


def test_every_record_of_the_package_is_made_this_way() -> None:
    """One that is not costs each start half a millisecond."""
    code = """
import dataclasses, sys
made = dataclasses.dataclass
def refuse(cls=None, /, *, init=True, **options):
    if init and not sys._getframe(1).f_globals["__name__"].startswith("fastnode.records"):
        name = sys._getframe(1).f_globals["__name__"]
        if name.startswith("fastnode"):
            print(name)
    return made(cls, init=init, **options) if cls else lambda cls: made(cls, init=init, **options)
dataclasses.dataclass = refuse
import fastnode.cli.start, fastnode.app.process.process, fastnode.app.stages.origins, fastnode.metrics.port
import fastnode.local_network.opening, fastnode.api.local_network
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
