"""YAML with places: every value knows its line, so that a refusal can name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from scheduler_service.errors import ConfigurationError, KaiError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Located:
    """A YAML node with its dotted path. Everything taken from it is refused with file, line and field."""

    file: Path
    path: str
    node: yaml.Node

    @property
    def line(self) -> int:
        """The line in the file, from 1."""
        return int(self.node.start_mark.line) + 1

    def refuse(self, what: str, hint: str) -> ConfigurationError:
        """Return the error for this place."""
        return ConfigurationError(f"{self.file}, line {self.line}, {self.path}: {what}", hint=hint)

    def entries(self) -> Iterator[tuple[str, Located]]:
        """Yield the entries of a mapping in order; a name that comes twice is refused."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.refuse(
                "must be a mapping of names to values.", "Write `name: value` lines below it."
            )
        seen: set[str] = set()
        for key, value in self.node.value:
            name = str(key.value)
            inner = Located(self.file, f"{self.path}.{name}" if self.path else name, value)
            if name in seen:
                raise inner.refuse("is there twice.", "Keep one of them.")
            seen.add(name)
            yield name, inner

    def items(self) -> Iterator[Located]:
        """Yield the members of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.refuse("must be a list.", "Write it like [a, b].")
        for number, value in enumerate(self.node.value):
            yield Located(self.file, f"{self.path}[{number}]", value)

    @property
    def is_null(self) -> bool:
        """Whether it says null (or nothing)."""
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == "tag:yaml.org,2002:null"

    @property
    def is_mapping(self) -> bool:
        """Whether entries can be taken from it."""
        return isinstance(self.node, yaml.MappingNode)

    def plain(self) -> Any:
        """Return the value as plain Python data."""
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(self.node)
        finally:
            loader.dispose()

    def text(self) -> str:
        """Return a scalar as it is written."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.refuse("must be a single value.", "Write it on one line.")
        return str(self.node.value)

    def parsed(self, parse: Callable[[str], T], hint: str) -> T:
        """Return what `parse` makes of a scalar; its refusal gets the place."""
        text = self.text()
        try:
            return parse(text)
        except KaiError as error:
            raise self.refuse(f"{error.what} {error.why}".strip(), error.hint or hint) from error
        except ValueError as error:
            raise self.refuse(f"{text!r} can not be used.", hint) from error


def read(file: Path) -> Located | None:
    """Return the root of a YAML file; None if there is no file or nothing in it."""
    try:
        text = file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{file} can not be read.", why=f"{error}.", hint="Correct or remove it."
        ) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigurationError(
            f"{file}{place}: this is not YAML.", why=f"{error.problem}.", hint="Correct that line."
        ) from error
    return None if node is None else Located(file, "", node)
