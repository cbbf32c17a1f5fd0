"""Which names does a cell need from the notebook? Found by reading the cell, never by running it. Pure.

A name is needed when it is read where it is not surely set: `x = x + 1` needs `x`, a loop's own variable is not needed.
The body of a function is read last, because it runs last. Bodies of loops, `with` and `try` count as run; a name set in
one branch of an `if` only may still be needed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass

from kai_jupyter.errors import CaptureError

_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Reading:
    """What a cell needs and what it sets on some path, both in alphabetical order."""

    needs: tuple[str, ...]
    sets: tuple[str, ...]


def parse(source: str, filename: str = "<cell>") -> ast.Module:
    """Return the cell as a tree; top-level `await` is allowed. Raises `CaptureError` for what is not Python."""
    try:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(source, filename, "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        raise CaptureError(_not_python(source, error)) from error
    assert isinstance(tree, ast.Module)  # noqa: S101 - what the flag promises
    return tree


def read(source: str) -> Reading:
    """Return what the cell `source` needs and sets."""
    scope = _Scope()
    scope.run(parse(source).body)
    late = scope.late - scope.bound
    return Reading(tuple(sorted((scope.reads | late) - _BUILTINS)), tuple(sorted(scope.ever)))


def _not_python(source: str, error: SyntaxError) -> str:
    number = error.lineno or 1
    lines = source.splitlines()
    line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    if line.startswith(("%", "!", "?")) or line.endswith("?"):
        return (
            f"Line {number} of the cell, `{line}`, is a notebook command, and workers are plain Python. "
            "Run it in a cell of its own before."
        )
    return f"Line {number} of the cell is not valid Python: {error.msg}. The line is `{line}`. Nothing was sent."


class _Scope(ast.NodeVisitor):
    """One block of names, walked in the order in which it runs."""

    def __init__(self, outer_bound: Iterable[str] = ()) -> None:
        self.bound: set[str] = set(outer_bound)
        """Surely set by now."""
        self.ever: set[str] = set()
        """Set on some path."""
        self.reads: set[str] = set()
        self.late: set[str] = set()
        """Read in bodies of functions: needed if nobody has set them by the end."""

    def run(self, statements: Iterable[ast.AST]) -> None:
        """Walk a block."""
        for statement in statements:
            self.visit(statement)

    def _set(self, name: str | None) -> None:
        if name:
            self.bound.add(name)
            self.ever.add(name)

    # -- names --------------------------------------------------------------------------------------------------
    def visit_Name(self, node: ast.Name) -> None:
        is_store = isinstance(node.ctx, ast.Store)
        if not is_store and node.id not in self.bound:
            self.reads.add(node.id)
        if is_store:
            self._set(node.id)
        elif isinstance(node.ctx, ast.Del):
            self.bound.discard(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.run([node.value, *node.targets])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name) and node.target.id not in self.bound:
            self.reads.add(node.target.id)
        self.run([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.run([node.annotation, *([node.value] if node.value else [])])
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.run([node.value, node.target])

    def visit_alias(self, node: ast.alias) -> None:
        self._set(node.asname or node.name.split(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        self._set(node.name)
        self.run(node.body)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        self._set(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._set(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        self._set(node.rest)

    # -- blocks -------------------------------------------------------------------------------------------------
    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.run([node.iter, node.target, *node.body, *node.orelse])

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = set(self.bound)
        self.run(node.body)
        then, self.bound = self.bound, before
        self.run(node.orelse)
        self.bound &= then

    # -- inner scopes -------------------------------------------------------------------------------------------
    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.run(node.decorator_list)
        self._defaults(node.args)
        self.run([a.annotation for a in _arguments(node.args) if a.annotation is not None])
        if node.returns is not None:
            self.visit(node.returns)
        self._set(node.name)
        self.late |= _free_in_function(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self.late |= _free_in_function(node)

    def _defaults(self, arguments: ast.arguments) -> None:
        self.run(arguments.defaults)
        self.run([default for default in arguments.kw_defaults if default is not None])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.run([*node.decorator_list, *node.bases, *(k.value for k in node.keywords)])
        inner = _Scope(self.bound)
        inner.run(node.body)
        self.reads |= inner.reads
        self.late |= inner.late
        self._set(node.name)

    def _comprehension(self, node: _Comprehension) -> None:
        inner = _Scope(self.bound)
        for generator in node.generators:
            inner.run([generator.iter, generator.target, *generator.ifs])
        inner.run([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self.reads |= inner.reads
        self.late |= inner.late

    visit_ListComp = _comprehension  # noqa: N815
    visit_SetComp = _comprehension  # noqa: N815
    visit_DictComp = _comprehension  # noqa: N815
    visit_GeneratorExp = _comprehension  # noqa: N815


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    rest = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def _free_in_function(node: _Function) -> set[str]:
    """Return the names that a function takes from outside itself."""
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    local = {argument.arg for argument in _arguments(node.args)} | _assigned_in(body)
    inner = _Scope(local)
    inner.run(body)
    return (inner.reads | inner.late) - local


def _assigned_in(body: list[ast.AST]) -> set[str]:
    """Return the names that are local to a function because it sets them somewhere."""
    scope = _Scope()
    scope.run(body)
    names = {name for part in body for n in _own_nodes(part) if (name := _stored(n))} | scope.ever
    outer = {
        name
        for part in body
        for n in _own_nodes(part)
        if isinstance(n, ast.Global | ast.Nonlocal)
        for name in n.names
    }
    return names - outer


def _stored(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else None


def _own_nodes(node: ast.AST) -> Iterable[ast.AST]:
    """Yield `node` and what is below it, without inner functions and classes."""
    yield node
    if isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | _Comprehension
    ):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)
