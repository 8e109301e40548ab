"""Frozen dataclasses to plain JSON values and back, checked against their annotations.

Knows nothing about traces. Dataclasses become objects, except those that set `ROW = True`: they become arrays,
in field order. A union of dataclasses is an object with its class name under "type". Fields named in `LATER` may be
missing, and are left out where they have their default.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any


class DecodeError(ValueError):
    """The value at `path` is not what the annotation says."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'value'}: {problem}")


def to_plain(value: Any) -> Any:
    """Lists, dicts, strings, numbers, booleans and None that stand for `value`."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    # Such as a prompt whose tokens are made when they are read.
    if isinstance(value, Sequence):
        return [to_plain(item) for item in value]
    return _plain_dataclass(value)


def to_tagged(value: Any) -> dict[str, Any]:
    """A member of a union of dataclasses, with its class name."""
    return {"type": type(value).__name__, **_plain_fields(value)}


def _plain_dataclass(value: Any) -> Any:
    if getattr(value, "ROW", False):
        return [to_plain(getattr(value, name)) for name, _ in _fields(type(value))]
    return _plain_fields(value)


def _plain_fields(value: Any) -> dict[str, Any]:
    tagged = _union_fields(type(value))
    result = {}
    later = _later_fields(type(value))
    for name, _ in _fields(type(value)):
        item = getattr(value, name)
        if name in later and item == later[name]:
            continue
        result[name] = [to_tagged(member) for member in item] if name in tagged else to_plain(item)
    return result


def from_plain(annotation: Any, value: Any, path: str = "") -> Any:
    """The value of type `annotation` that `value` stands for; raises `DecodeError`."""
    return _decoder(annotation)(value, path)


Decoder = Callable[[Any, str], Any]
_INT_BOUND = 2**63


def _decoder(annotation: Any) -> Decoder:
    return _cached_decoder(annotation)


@cache
def _cached_decoder(annotation: Any) -> Decoder:
    origin = typing.get_origin(annotation)
    args = typing.get_args(annotation)
    if annotation is int:
        return _int
    if annotation in (str, bool):
        return _exact(annotation)
    if annotation is float:
        return _float
    if annotation is type(None):
        return _none
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _sequence(args[0])
    if origin is tuple:
        return _fixed_tuple(args)
    if origin is dict:
        return _mapping(args[0], args[1])
    if origin in (typing.Union, types.UnionType):
        return _union(args)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation)
    if dataclasses.is_dataclass(annotation):
        return _dataclass(annotation)
    raise TypeError(f"no decoder for {annotation!r}")


def _int(value: Any, path: str) -> int:
    if type(value) is not int or not -_INT_BOUND <= value < _INT_BOUND:
        raise DecodeError(path, f"{_short(value)} is not a whole number of at most 64 bits")
    return value


def _exact(cls: type) -> Decoder:
    def decode(value: Any, path: str) -> Any:
        if type(value) is not cls:
            raise DecodeError(path, f"{_short(value)} is not of type {cls.__name__}")
        return value

    return decode


def _float(value: Any, path: str) -> float:
    # JSON as Python reads it knows NaN, Infinity and integers of any size.
    if type(value) not in (int, float) or not -1e300 < value < 1e300:
        raise DecodeError(path, f"{_short(value)} is not a number")
    return float(value)


def _none(value: Any, path: str) -> None:
    if value is not None:
        raise DecodeError(path, f"{_short(value)} is not null")


def _sequence(item: Any) -> Decoder:
    inner = _decoder(item)

    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise DecodeError(path, f"{_short(value)} is not an array")
        return tuple([inner(member, f"{path}[{i}]") for i, member in enumerate(value)])

    def decode_ints(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise DecodeError(path, f"{_short(value)} is not an array")
        for i, member in enumerate(value):
            if type(member) is not int or not -_INT_BOUND <= member < _INT_BOUND:
                raise DecodeError(f"{path}[{i}]", f"{_short(member)} is not a whole number of at most 64 bits")
        return tuple(value)

    return decode_ints if item is int else decode


def _fixed_tuple(items: tuple[Any, ...]) -> Decoder:
    inner = [_decoder(item) for item in items]

    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(inner):
            raise DecodeError(path, f"{_short(value)} is not an array of {len(inner)}")
        return tuple([one(member, f"{path}[{i}]") for i, (one, member) in enumerate(zip(inner, value, strict=True))])

    return decode


def _mapping(key: Any, item: Any) -> Decoder:
    inner = _decoder(item)

    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise DecodeError(path, f"{_short(value)} is not an object")
        try:
            return {key(name): inner(member, f"{path}.{name}") for name, member in value.items()}
        except ValueError as problem:
            raise problem if isinstance(problem, DecodeError) else DecodeError(path, str(problem)) from None

    return decode


def _union(args: tuple[Any, ...]) -> Decoder:
    members = [arg for arg in args if arg is not type(None)]
    if len(members) == 1:
        inner = _decoder(members[0])
        return lambda value, path: None if value is None else inner(value, path)
    by_name = {member.__name__: _dataclass(member) for member in members}

    def decode(value: Any, path: str) -> Any:
        name = value.get("type") if isinstance(value, dict) else value
        if not isinstance(value, dict) or not isinstance(name, str) or name not in by_name:
            raise DecodeError(path, f"unknown type {_short(name)}")
        return by_name[name]({k: v for k, v in value.items() if k != "type"}, path)

    return decode


def _enum(cls: type[Enum]) -> Decoder:
    members = {member.value: member for member in cls}

    def decode(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value not in members:
            raise DecodeError(path, f"{_short(value)} is not one of {', '.join(members)}")
        return members[value]

    return decode


def _dataclass(cls: Any) -> Decoder:
    fields = _fields(cls)
    names = [name for name, _ in fields]
    inner = [(name, _decoder(annotation)) for name, annotation in fields]
    later = _later_fields(cls)

    def decode_row(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(inner):
            raise DecodeError(path, f"{_short(value)} is not an array of {len(inner)}")
        members = zip(inner, value, strict=True)
        return _build(cls, [one(member, f"{path}.{name}") for (name, one), member in members], path)

    def decode_object(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise DecodeError(path, f"{_short(value)} is not an object")
        if unknown := [name for name in value if name not in names]:
            raise DecodeError(path, f"unknown name {unknown[0]!r}")
        if missing := [name for name in names if name not in value and name not in later]:
            raise DecodeError(path, f"{missing[0]!r} is missing")
        members = (one(value[name], f"{path}.{name}") if name in value else later[name] for name, one in inner)
        return _build(cls, [*members], path)

    return decode_row if getattr(cls, "ROW", False) else decode_object


def _build(cls: Any, values: list[Any], path: str) -> Any:
    try:
        return cls(*values)
    except DecodeError:
        raise
    except Exception as problem:  # the dataclass's own check of its values
        raise DecodeError(path, str(problem)) from None


def _fields(cls: Any) -> tuple[tuple[str, Any], ...]:
    return _cached_fields(cls)


@cache
def _cached_fields(cls: Any) -> tuple[tuple[str, Any], ...]:
    hints = typing.get_type_hints(cls)
    return tuple((f.name, hints[f.name]) for f in dataclasses.fields(cls))


@cache
def _cached_later_fields(cls: Any) -> dict[str, Any]:
    later = getattr(cls, "LATER", ())
    return {f.name: f.default for f in dataclasses.fields(cls) if f.name in later}


def _later_fields(cls: Any) -> dict[str, Any]:
    """Fields that older files do not have, with their defaults."""
    return _cached_later_fields(cls)


def _union_fields(cls: Any) -> frozenset[str]:
    """Names of the fields that hold a tuple of a union of dataclasses."""
    return _cached_union_fields(cls)


@cache
def _cached_union_fields(cls: Any) -> frozenset[str]:
    found = set()
    for name, annotation in _fields(cls):
        args = typing.get_args(annotation)
        if typing.get_origin(annotation) is tuple and typing.get_origin(args[0]) in (typing.Union, types.UnionType):
            found.add(name)
    return frozenset(found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
