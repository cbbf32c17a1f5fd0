"""An owner as it is remembered: without what changes all the time and no rule of grouping reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

Table = dict[str, Any]
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_FLEETING: Final = ("managedFields", "resourceVersion", "generation")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def remembered(body: bytes, *, with_counts: bool = False) -> Table:
    """Return the object with the parts that grouping may read; `with_counts`: the numbers of its status too."""
    found = _decode(body)
    metadata = {
        key: value for key, value in _table(found, "metadata").items() if key not in _FLEETING
    }
    kept = {key: value for key, value in found.items() if key not in {"metadata", "status"}}
    return {
        **kept,
        "metadata": metadata,
        "status": _status(_table(found, "status"), with_counts=with_counts),
    }


def _table(thing: Mapping[str, Any], key: str) -> Table:
    found = thing.get(key)
    return found if isinstance(found, dict) else {}


def _status(status: Table, *, with_counts: bool) -> Table:
    """Return what a status says of the end: words, flags and conditions; counts and moments go."""
    found: Table = {}
    for key, value in status.items():
        if key == "conditions" and isinstance(value, list):
            found[key] = [_condition(each) for each in value if isinstance(each, dict)]
        elif isinstance(value, dict):
            found[key] = _status(value, with_counts=with_counts)
        elif _stays(value, with_counts=with_counts):
            found[key] = value
    return found


def _stays(value: Any, *, with_counts: bool) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, str):
        return not _MOMENT.match(value)
    return with_counts and isinstance(value, int)


def _condition(raw: Table) -> Table:
    return {key: raw[key] for key in ("type", "status") if key in raw}
