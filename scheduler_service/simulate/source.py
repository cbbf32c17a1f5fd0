"""A file as plain values: JSON, or YAML with the shorthands of `shorthand`, told apart by suffix.

Errors name the file and, where there is one, the line.
"""

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler_service.errors import ConfigurationError
from scheduler_service.simulate import shorthand

SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
_YAML: Final = frozenset({".yaml", ".yml"})
LARGEST: Final = 2**53


class Located(ConfigurationError):
    """A value in a file is wrong; `where` is the path to it inside the file."""

    def __init__(self, file: Path, where: str, error: str, *, hint: str = "") -> None:
        self.file = file
        self.where = where
        place = f"{file}: {where}: " if where else f"{file}: "
        super().__init__(f"{place}{error}", hint=hint)


def read(file: Path) -> dict[str, Any]:
    """Return the file's top-level mapping; a YAML file's shorthands are written out."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        hint = "Check the path."
        raise Located(file, "", f"cannot be read ({error.strerror}).", hint=hint) from None
    except UnicodeDecodeError:
        raise Located(file, "", "is not text in UTF-8.") from None
    try:
        value = _yaml(file, text) if file.suffix in _YAML else _json(file, text)
    except RecursionError:
        raise Located(file, "", "holds lists or objects inside each other too deeply.") from None
    _check_numbers(file, value)
    if not isinstance(value, dict):
        raise Located(file, "", "does not hold one object.", hint="Start it with {.")
    return value


def _check_numbers(file: Path, value: Any) -> None:
    """Raise for a number beyond what is exact everywhere: sums of such amounts would not be."""
    waiting: list[tuple[tuple[object, ...], Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [((*path, name), each) for name, each in item.items()]
        elif isinstance(item, list):
            waiting += [((*path, number), each) for number, each in enumerate(item)]
        elif isinstance(item, int | float) and not abs(item) <= LARGEST:
            where = ".".join(map(str, path))
            raise Located(
                file, where, "is no number that can be counted with.", hint=f"At most {LARGEST}."
            )


def _json(file: Path, text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise Located(file, twice, "appears twice in one object.", hint="Names are unique.")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Located(file, where, f"is not JSON ({error.msg}).") from None


def _yaml(file: Path, text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise Located(file, where, f"is not YAML ({error.problem}).") from None
    if not isinstance(value, dict):
        return value
    try:
        return shorthand.write_out(value)
    except ConfigurationError as error:
        raise Located(file, "", error.what, hint=error.hint) from None


def convert(file: Path, where: str, value: Any, to: type[Any]) -> Any:
    """Return `value` as the type `to`; an error says where in the file it is wrong."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        text, _, inner = str(error).partition(" - at `$")
        inner = inner.rstrip("`")
        hint = "FORMAT.md lists the fields." if "unknown field" in text else ""
        raise Located(file, f"{where}{inner}", f"{text}.", hint=hint) from None
