"""IPython's magic arguments with types: the same help and the same parsing, checked at type-check time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from IPython.core import magic, magic_arguments

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_COMMENT = re.compile(r"(^|\s)#.*")


def option(*flags: str, **how: Any) -> Callable[[F], F]:
    """Return the decorator that adds an argument, as `argparse` takes it."""
    decorate: Any = magic_arguments.argument
    return cast("Callable[[F], F]", decorate(*flags, **how))


def documented(function: F) -> F:
    """Give a magic the parser of its options, and its help."""
    decorate: Any = magic_arguments.magic_arguments
    return cast("F", decorate()(function))


def line_or_cell(function: F) -> F:
    """Make a method a line magic and a cell magic."""
    decorate: Any = magic.line_cell_magic
    return cast("F", decorate(function))


def has_magics(cls: C) -> C:
    """Collect the magics of a class."""
    decorate: Any = magic.magics_class
    return cast("C", decorate(cls))


def parsed(function: Callable[..., Any], line: str) -> argparse.Namespace:
    """Return the options of a line; a comment may follow. Raises IPython's `UsageError` with the usage."""
    parse: Any = magic_arguments.parse_argstring
    return cast("argparse.Namespace", parse(function, _COMMENT.sub("", line)))
