"""Write `src/api/schema.ts`: the wire types for TypeScript, and the table that the page's guard reads.

Rule: everything comes from `scheduler_service.wire`; nothing is described twice.
`--check` exits 1 when the file is out of date.
"""

from __future__ import annotations

import sys
import types
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "labextension" / "src" / "api" / "schema.ts"
sys.path.insert(0, str(ROOT))

# What a page sends or receives; all that these hold comes along.
from scheduler_service.wire import cluster, events, explain, pod_group, problem, runner, team  # noqa: E402

WANTED = (
    events.StreamEvent,
    pod_group.PodGroupList,
    pod_group.Submit,
    pod_group.Extend,
    pod_group.Cancel,
    explain.ExplainView,
    explain.ForecastView,
    runner.LogPage,
    team.TeamView,
    team.WhatIfView,
    team.ChangeView,
    team.LeadAsk,
    cluster.Health,
    problem.Problem,
)
HEAD = """\
/* eslint-disable */
/**
 * Written by scripts/generate_schema.py from scheduler_service/wire. Change those files, then run `jlpm generate`.
 */
"""
PRIMITIVES = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


class Types:
    """Annotations as TypeScript types."""

    def primitive(self, word: str) -> str:
        """Return a primitive type."""
        return word

    def named(self, name: str) -> str:
        """Return the type of another wire class."""
        return name

    def words(self, values: typing.Sequence[str]) -> str:
        """Return a closed choice of words."""
        return " | ".join(f"'{value}'" for value in values)

    def either(self, parts: typing.Iterable[str]) -> str:
        """Return a union."""
        return " | ".join(parts)

    def listed(self, inner: str) -> str:
        """Return a sequence."""
        return f"ReadonlyArray<{inner}>"

    def mapped(self, inner: str) -> str:
        """Return a record of texts to `inner`."""
        return f"Readonly<Record<string, {inner}>>"


class Shapes(Types):
    """Annotations as the rows of the guard's table."""

    def primitive(self, word: str) -> str:
        """Return the word that the guard compares `typeof` with."""
        return f"'{word}'"

    def named(self, name: str) -> str:
        """Return a reference to another row."""
        return f"{{ is: '{name}' }}"

    def words(self, values: typing.Sequence[str]) -> str:
        """Return a closed choice of words."""
        return f"{{ words: [{', '.join(repr(value) for value in values)}] }}"

    def either(self, parts: typing.Iterable[str]) -> str:
        """Return several possibilities."""
        return f"{{ any: [{', '.join(parts)}] }}"

    def listed(self, inner: str) -> str:
        """Return a sequence."""
        return f"{{ list: {inner} }}"

    def mapped(self, inner: str) -> str:
        """Return a record of texts to `inner`."""
        return f"{{ map: {inner} }}"


TYPES, SHAPES = Types(), Shapes()


def rendered(hint: object, language: Types) -> str:
    """Return an annotation in one of the two languages."""
    if hint in PRIMITIVES:
        return language.primitive(PRIMITIVES[typing.cast("type", hint)])
    if is_dataclass(hint):
        return language.named(typing.cast("type", hint).__name__)
    args = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return language.words(args)
    parts = [rendered(arg, language) for arg in args if arg is not Ellipsis]
    builders: dict[object, typing.Callable[[], str]] = {
        typing.Union: lambda: language.either(dict.fromkeys(parts)),
        types.UnionType: lambda: language.either(dict.fromkeys(parts)),
        tuple: lambda: language.listed(parts[0]),
        dict: lambda: language.mapped(parts[1]),
    }
    if origin not in builders:
        raise TypeError(f"No TypeScript for {hint!r}; teach scripts/generate_schema.py.")
    return builders[origin]()


def reachable(roots: typing.Iterable[type]) -> list[type]:
    """Return the data classes that the roots hold, each once, by name."""
    found: dict[str, type] = {}
    waiting = list(roots)
    while waiting:
        cls = waiting.pop()
        if cls.__name__ in found:
            continue
        found[cls.__name__] = cls
        for hint in typing.get_type_hints(cls).values():
            waiting.extend(classes_in(hint))
    return [found[name] for name in sorted(found)]


def classes_in(hint: object) -> list[type]:
    """Return the data classes that an annotation names."""
    if is_dataclass(hint):
        return [typing.cast("type", hint)]
    return [cls for arg in typing.get_args(hint) for cls in classes_in(arg)]


def written(cls: type, *, sent: bool) -> str:
    """Return one exported type. What a page sends may leave out what has a default."""
    hints = typing.get_type_hints(cls)
    lines = [
        f"/** {(cls.__doc__ or '').strip().splitlines()[0]} */",
        f"export type {cls.__name__} = {{",
    ]
    for item in fields(cls):
        mark = "?" if sent else ""
        lines.append(f"  readonly {item.name}{mark}: {rendered(hints[item.name], TYPES)};")
    return "\n".join([*lines, "};"])


def schema() -> str:
    """Return the whole file."""
    classes = reachable(WANTED)
    written_by_page = reachable(
        [pod_group.Submit, pod_group.Extend, pod_group.Cancel, team.LeadAsk]
    )
    sent = {cls.__name__ for cls in written_by_page} - {pod_group.Origin.__name__}
    aliases = {
        name: getattr(pod_group, name)
        for name in ("Kind", "GroupState", "PodState", "Tone", "ActionId")
    }
    parts = [HEAD]
    parts += [f"export type {name} = {rendered(alias, TYPES)};" for name, alias in aliases.items()]
    parts += [written(cls, sent=cls.__name__ in sent) for cls in classes]
    parts.append(
        "/** What the guard knows of each type: a word, another type, `list`, `map`, `words`, `any`. */\n"
        "export type Shape =\n  | 'string'\n  | 'number'\n  | 'boolean'\n  | 'null'\n  | { readonly is: string }\n"
        "  | { readonly list: Shape }\n  | { readonly map: Shape }\n  | { readonly words: ReadonlyArray<string> }\n"
        "  | { readonly any: ReadonlyArray<Shape> };"
    )
    rows = []
    for cls in classes:
        hints = typing.get_type_hints(cls)
        body = ", ".join(
            f"{item.name}: {rendered(hints[item.name], SHAPES)}" for item in fields(cls)
        )
        rows.append(f"  {cls.__name__}: {{ {body} }}")
    table = "export const SHAPES: Readonly<Record<string, Readonly<Record<string, Shape>>>> = {\n"
    parts.append(table + ",\n".join(rows) + "\n};")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Write the file, or with --check say whether it is up to date."""
    text = schema()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write("labextension/src/api/schema.ts is out of date. Run: jlpm generate\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
