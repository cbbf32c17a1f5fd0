"""IPython's magic arguments with types: the same help and the same parsing, checked at type-check time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from IPython.core import magic, magic_arguments
from IPython.core.error import UsageError as WrongOptions

from kai_jupyter.durations import is_duration
from kai_jupyter.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_COMMENT = re.compile(r"(^|\s)#.*")
_BELOW_ZERO = re.compile(r"-(?!\d+\.?\d*$)\d\S*")
"""What argparse takes for an option; a plain number below zero it takes for a value."""


def option(*flags: str, **how: Any) -> Callable[[F], F]:
    """Return the decorator that adds an argument, as `argparse` takes it."""
    decorate: Any = magic_arguments.argument
    return cast("Callable[[F], F]", decorate(*flags, **how))


def cluster_options(function: F) -> F:
    """Add what can be chosen in a cluster only."""
    for flag, meant in (
        ("--profile", "in a cluster: a named choice of its keeper (image, nodes, amounts)"),
        ("--image", "in a cluster: the image of the pods; default: this notebook's own"),
        ("--folder", "in a cluster: the volume claim that is the pods' home"),
        ("--namespace", "in a cluster: where the pods are made"),
    ):
        function = option(flag, help=meant)(function)
    return function


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
    """Return the options of a line; a comment may follow. Raises `UsageError`: what is wrong, what to do."""
    parse: Any = magic_arguments.parse_argstring
    plain = _COMMENT.sub("", line)
    try:
        return cast("argparse.Namespace", parse(function, plain))
    except WrongOptions as error:
        below = [word for word in plain.split() if _BELOW_ZERO.fullmatch(word)]
        if below:
            raise UsageError(_positive(below[0])) from None
        raise UsageError(f"{error}. {_what_to_do(function, plain)}") from None


def names(text: str) -> list[str]:
    """Return the names of variables in a text like "a,b"."""
    return [name for name in text.replace(",", " ").split() if name]


def whole_number(flag: str, example: int) -> Callable[[str], int]:
    """Return the `type` of an option that takes a whole number; what is none is told with an example."""

    def read(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(
                f"{flag} takes a whole number, not '{text}'; for example {flag} {example}."
            ) from None

    return read


def has_options(
    function: Callable[..., Any], options: argparse.Namespace, *, but: Collection[str] = ()
) -> bool:
    """Return whether a line has options; its words and those named in `but` do not count."""
    parser: argparse.ArgumentParser = cast("Any", function).parser
    passed_over = {"words", *but}
    return any(
        value != parser.get_default(name)
        for name, value in vars(options).items()
        if name not in passed_over
    )


def _positive(word: str) -> str:
    """Return what to write instead of a value below zero, which looks like an option."""
    if is_duration(word[1:]):
        return f"A duration is positive, such as 10m; '{word}' is not."
    return f"An amount is positive, such as 8GiB; '{word}' is not."


def _what_to_do(function: Callable[..., Any], line: str) -> str:
    """Return the options that were likely meant, and where all of them stand."""
    parser: argparse.ArgumentParser = cast("Any", function).parser
    known = re.findall(r"(?<!\S)--?[a-z][a-z-]*", parser.format_help())
    asked = [word.partition("=")[0] for word in line.split() if word.startswith("-")]
    likely = {
        word: get_close_matches(word, known, n=1, cutoff=0.7) for word in asked if word not in known
    }
    meant = [f"{close[0]} instead of {word}" for word, close in likely.items() if close]
    hint = f"Did you mean {', '.join(meant)}? " if meant else ""
    return f"{hint}%{parser.prog}? shows all options."
