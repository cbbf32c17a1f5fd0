"""Two kinds of import contract that import-linter does not bring.

Both look at direct imports only: what a module pulls in through another of our modules is that
module's contract. A module named in a contract need not exist yet, so that a contract can stand
before the code it holds.
"""

from __future__ import annotations

from typing import cast

import grimp
from importlinter import Contract, ContractCheck, fields, output

OUR_PACKAGES = ("scheduler_service", "kai_jupyter")


def _is_inside(module: str, packages: list[str]) -> bool:
    """Tell whether `module` is one of `packages` or lies below one of them."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


class _DirectImportContract(Contract):
    """What both kinds share: a list of forbidden direct imports is a broken contract."""

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001
        """Return a kept contract, or one broken by the imports that stand in its metadata."""
        forbidden = sorted(self.forbidden_imports(graph))
        return ContractCheck(kept=not forbidden, metadata={"imports": forbidden})

    def forbidden_imports(self, graph: grimp.ImportGraph) -> list[tuple[str, str]]:
        """Return (importer, imported) for each direct import that this contract forbids."""
        raise NotImplementedError

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each forbidden import."""
        for importer, imported in check.metadata["imports"]:
            output.print(f"{importer} must not import {imported}")


class OnlyContract(_DirectImportContract):
    """`modules` import, among our own packages, nothing but themselves and `allowed`."""

    type_name = "only"
    modules = fields.ListField(subfield=fields.StringField())
    allowed = fields.ListField(subfield=fields.StringField(), required=False)

    def forbidden_imports(self, graph: grimp.ImportGraph) -> list[tuple[str, str]]:
        """Return each import from `modules` into another part of our packages."""
        modules = cast("list[str]", self.modules)
        known = modules + (cast("list[str] | None", self.allowed) or [])
        return [
            (importer, imported)
            for importer in graph.modules
            if _is_inside(importer, modules)
            for imported in graph.find_modules_directly_imported_by(importer)
            if _is_inside(imported, list(OUR_PACKAGES)) and not _is_inside(imported, known)
        ]


class BehindContract(_DirectImportContract):
    """Third-party `packages` are imported by `wrappers` alone."""

    type_name = "behind"
    packages = fields.ListField(subfield=fields.StringField())
    wrappers = fields.ListField(subfield=fields.StringField(), required=False)

    def forbidden_imports(self, graph: grimp.ImportGraph) -> list[tuple[str, str]]:
        """Return each import of `packages` outside `wrappers`."""
        wrappers = cast("list[str] | None", self.wrappers) or []
        packages = cast("list[str]", self.packages)
        return [
            (importer, package)
            for package in packages
            if package in graph.modules
            for importer in graph.find_modules_that_directly_import(package)
            if not _is_inside(importer, wrappers)
        ]


class WithoutContract(_DirectImportContract):
    """`modules` import none of `forbidden` themselves (a part of the standard library, say)."""

    type_name = "without"
    modules = fields.ListField(subfield=fields.StringField())
    forbidden = fields.ListField(subfield=fields.StringField())

    def forbidden_imports(self, graph: grimp.ImportGraph) -> list[tuple[str, str]]:
        """Return each import of `forbidden` from inside `modules`."""
        modules = cast("list[str]", self.modules)
        forbidden = cast("list[str]", self.forbidden)
        return [
            (importer, imported)
            for importer in graph.modules
            if _is_inside(importer, modules)
            for imported in graph.find_modules_directly_imported_by(importer)
            if _is_inside(imported, forbidden)
        ]
