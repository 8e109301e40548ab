"""Dataclasses to plain values and back, checked against their annotations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core import codec
from scheduler_core.codec import DecodeError, from_plain, to_plain, to_tagged


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Point:
    ROW: ClassVar[bool] = True

    x: int
    y: float


@dataclass(frozen=True, slots=True)
class Circle:
    centre: Point
    radius: float


@dataclass(frozen=True, slots=True)
class Label:
    text: str
    colour: Colour


@dataclass(frozen=True, slots=True)
class Drawing:
    name: str
    is_open: bool
    shapes: tuple[Circle | Label, ...]
    corner: Point | None
    tags: tuple[tuple[str, int], ...]
    numbers: tuple[int, ...]
    by_id: dict[int, str]

    def __post_init__(self) -> None:
        if self.name == "forbidden":
            raise ValueError("the name is forbidden")


texts = st.text(st.characters(), max_size=8)  # lone surrogates too
integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(-1e299, 1e299)
points = st.builds(Point, integers, floats)
shapes = st.one_of(st.builds(Circle, points, floats), st.builds(Label, texts, st.sampled_from(Colour)))
drawings = st.builds(
    Drawing,
    texts.filter(lambda name: name != "forbidden"),
    st.booleans(),
    st.lists(shapes, max_size=3).map(tuple),
    st.none() | points,
    st.lists(st.tuples(texts, integers), max_size=2).map(tuple),
    st.lists(integers, max_size=4).map(tuple),
    st.dictionaries(integers, texts, max_size=3),
)
EXAMPLE = Drawing(
    "d", True, (Circle(Point(1, 2.5), 3.0), Label("hi", Colour.RED)), None, (("a", 1),), (4, 5), {6: "six"}
)


@given(drawings)
def test_any_value_survives_the_way_through_json(drawing: Drawing):
    assert from_plain(Drawing, json.loads(json.dumps(to_plain(drawing)))) == drawing


def test_rows_are_arrays_and_unions_carry_their_name():
    assert to_plain(EXAMPLE) == {
        "name": "d",
        "is_open": True,
        "shapes": [
            {"type": "Circle", "centre": [1, 2.5], "radius": 3.0},
            {"type": "Label", "text": "hi", "colour": "red"},
        ],
        "corner": None,
        "tags": [["a", 1]],
        "numbers": [4, 5],
        "by_id": {"6": "six"},
    }
    assert to_tagged(EXAMPLE.shapes[1]) == to_plain(EXAMPLE)["shapes"][1]


def test_a_whole_number_is_read_where_a_float_is_due():
    point = from_plain(Point, [1, 2])
    assert point == Point(1, 2.0)
    assert isinstance(point.y, float)


def changed(**fields: Any) -> dict[str, Any]:
    return {**to_plain(EXAMPLE), **fields}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (changed(colour="red"), "value: unknown name 'colour'"),
        ({k: v for k, v in to_plain(EXAMPLE).items() if k != "tags"}, "value: 'tags' is missing"),
        (changed(name=5), ".name: 5 is not of type str"),
        (changed(is_open=1), ".is_open: 1 is not of type bool"),
        (changed(corner=[1]), r".corner: [1] is not an array of 2"),
        (changed(corner={"x": 1, "y": 2}), "is not an array of 2"),
        (changed(corner=[1.0, 2]), ".corner.x: 1.0 is not a whole number of at most 64 bits"),
        (changed(corner=[True, 2]), ".corner.x: True is not a whole number"),
        (changed(corner=[2**63, 2]), ".corner.x: 9223372036854775808 is not a whole number of at most 64 bits"),
        (changed(corner=[1, float("nan")]), ".corner.y: nan is not a number"),
        (changed(corner=[1, float("inf")]), ".corner.y: inf is not a number"),
        (changed(corner=[1, 10**400]), ".corner.y: 1000"),
        (changed(corner=[1, "2"]), ".corner.y: '2' is not a number"),
        (changed(numbers=[1, True]), ".numbers[1]: True is not a whole number"),
        (changed(numbers=[2**64]), ".numbers[0]: 18446744073709551616 is not a whole number"),
        (changed(numbers={}), ".numbers: {} is not an array"),
        (changed(tags=[["a"]]), ".tags[0]: ['a'] is not an array of 2"),
        (changed(shapes=[{"type": "Square"}]), ".shapes[0]: unknown type 'Square'"),
        (changed(shapes=[{"type": []}]), ".shapes[0]: unknown type []"),
        (changed(shapes=["Circle"]), ".shapes[0]: unknown type 'Circle'"),
        (changed(shapes=[{"text": "hi", "colour": "red"}]), ".shapes[0]: unknown type None"),
        (
            changed(shapes=[{"type": "Label", "text": "x", "colour": "pink"}]),
            ".shapes[0].colour: 'pink' is not one of red, blue",
        ),
        (changed(by_id={"six": "six"}), ".by_id: invalid literal"),
        (changed(by_id=[]), ".by_id: [] is not an object"),
        (changed(name="forbidden"), "value: the name is forbidden"),
        ([], "value: [] is not an object"),
        (changed(name=["x" * 100]), "..."),
    ],
)
def test_what_does_not_fit_the_annotations_is_refused_with_its_place(plain: Any, message: str):
    with pytest.raises(DecodeError) as problem:
        from_plain(Drawing, plain)
    assert message in str(problem.value)
    assert len(str(problem.value)) < 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_foreign_values_are_refused_and_nothing_else_happens(value: Any):
    with pytest.raises(DecodeError):
        from_plain(Drawing, value)


@given(st.sampled_from(sorted(to_plain(EXAMPLE))), json_values)
def test_a_field_with_a_foreign_value_is_refused_or_read_as_it_says(name: str, value: Any):
    try:
        drawing = from_plain(Drawing, changed(**{name: value}))
    except DecodeError:
        return
    assert from_plain(Drawing, json.loads(json.dumps(to_plain(drawing)))) == drawing


def test_an_annotation_without_a_meaning_is_a_programmers_error():
    with pytest.raises(TypeError, match="no decoder"):
        from_plain(set, [])


def test_a_union_of_dataclasses_is_found_by_its_annotation():
    assert codec._union_fields(Drawing) == {"shapes"}
