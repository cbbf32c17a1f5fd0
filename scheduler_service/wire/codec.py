"""Between JSON-shaped data and the wire's dataclasses, for programs that have no FastAPI at hand (runner, SDK, CLI).

Unknown fields are ignored (an older reader survives a newer writer); missing ones without a default raise `TypeError`.
"""

from __future__ import annotations

import types
import typing
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return `value`, a wire dataclass, as plain dicts, lists and scalars ready for `json.dumps`."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value


def decode(cls: type[T], data: Any) -> T:
    """Return `data` (as `json.loads` gives it) as an instance of the wire dataclass `cls`."""
    return typing.cast(T, _decode(cls, data))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode(hint: Any, data: Any) -> Any:
    if is_dataclass(hint):
        hints = _hints(typing.cast(type, hint))
        known = {
            f.name: _decode(hints[f.name], data[f.name]) for f in fields(hint) if f.name in data
        }
        return typing.cast(Any, hint)(**known)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(hint), data)
    if origin is tuple:
        inner = get_args(hint)[0]
        return tuple(_decode(inner, item) for item in data)
    if origin is dict:
        value_hint = get_args(hint)[1]
        return {key: _decode(value_hint, item) for key, item in data.items()}
    return data


def _decode_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    dataclass_options = [o for o in options if is_dataclass(o) or get_origin(o) in (tuple, dict)]
    if dataclass_options and isinstance(data, dict | list):
        return _decode(dataclass_options[0], data)
    return data
