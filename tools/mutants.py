"""Small faults that can be put into a Python file, one at a time: each is a mutant.

What belongs here: where a fault can be, what it does, and the code with it. What never does:
whether a test notices (`mutate`).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

Change = Callable[[Any], ast.AST]
"""Makes the fault of a node; each is given the kind of node it was found for."""

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
DROPPED: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Continue, ast.Break, ast.Delete)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: `what` it is, in function `owner` at `line`. `key` stays while the function does."""

    owner: str
    number: int
    line: int
    what: str
    digest: str

    @property
    def key(self) -> str:
        """The name under which its result is kept."""
        return f"{self.owner}:{self.number}:{self.digest}"


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a file's functions, in order."""
    found: list[Mutant] = []
    for owner, function in _functions(ast.parse(source)):
        digest = hashlib.sha256(ast.dump(function).encode()).hexdigest()[:12]
        for number, (node, what, _) in enumerate(_sites(function)):
            line = getattr(node, "lineno", function.lineno)
            found.append(Mutant(owner, number, line, what, digest))
    return found


def code_of(source: str, filename: str, mutant: Mutant) -> CodeType:
    """Return the code object of the mutant's function, with the fault in it."""
    tree = ast.parse(source)
    function = next(found for owner, found in _functions(tree) if owner == mutant.owner)
    node, _, change = list(_sites(function))[mutant.number]
    _Replace(node, change).visit(function)
    module = compile(ast.fix_missing_locations(tree), filename, "exec")
    return next(code for code in _codes(module) if code.co_qualname == mutant.owner)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield functions and methods with their qualified names; inner ones belong to their outer."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, change: Change) -> None:
        self.target = target
        self.change = change

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.target:
            return self.change(node)
        return self.generic_visit(node)


def _sites(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str, Change]]:
    """Yield each place for a fault, what the fault is, and the change that makes it."""
    for statement in function.body:
        for node in _walk(statement):
            yield from _of_statement(node)
            yield from _of_expression(node)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, without annotations, zip's `strict` and what only counts work."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    yield node
    for name, child in ast.iter_fields(node):
        if name in {"annotation", "returns"}:
            continue
        for item in child if isinstance(child, list) else [child]:
            if isinstance(item, ast.AST) and not _only_counts(item):
                yield from _walk(item)


def _only_counts(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) and "counts" in ast.unparse(node.target)


def _of_statement(node: ast.AST) -> Iterator[tuple[ast.AST, str, Change]]:
    if isinstance(node, DROPPED) and not _is_needed(node) and not _only_counts(node):
        yield node, f"without: {_short(node)}", lambda _: ast.Pass()
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(
        node.test, ast.Name | ast.Attribute | ast.Call
    ):
        yield node.test, f"not {_short(node.test)}", _negated


def _is_needed(node: ast.AST) -> bool:
    """Say whether dropping a statement says nothing: a text, or a name that is read afterwards."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    return False


def _of_expression(node: ast.AST) -> Iterator[tuple[ast.AST, str, Change]]:
    match node:
        case ast.Compare(ops=[operator]):
            other = COMPARISONS[type(operator)]
            yield node, f"{_short(node)}: {type(operator).__name__} → {other.__name__}", _compared
        case ast.BoolOp():
            yield node, f"{_short(node)}: and ↔ or", _other_bool
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, f"without the sign: {_short(node)}", _unsigned
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield node, f"other operator: {_short(node)}", _other_operator
        case ast.Constant(value=bool() as value):
            yield node, f"{value} → {not value}", lambda _: ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield node, f"{value} → {value + 1}", lambda _: ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield node, f"{name} → {NAMES[name]}: {_short(node)}", _other_name


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _negated(node: ast.expr) -> ast.AST:
    return ast.UnaryOp(ast.Not(), node)


def _compared(node: ast.Compare) -> ast.AST:
    node.ops = [COMPARISONS[type(node.ops[0])]()]
    return node


def _other_bool(node: ast.BoolOp) -> ast.AST:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _unsigned(node: ast.UnaryOp) -> ast.AST:
    return node.operand


def _other_operator(node: ast.BinOp) -> ast.AST:
    node.op = OPERATORS[type(node.op)]()
    return node


def _other_name(node: ast.Call) -> ast.AST:
    name = next(inner.id for inner in ast.walk(node.func) if isinstance(inner, ast.Name))
    node.func = ast.Name(NAMES[name], ast.Load())
    return node
