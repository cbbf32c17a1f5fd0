"""What the packages import is declared, and nothing is declared for nobody."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tools.progress import ROOT

OURS = {"kai_jupyter", "scheduler_service"}
# Needed though no line of ours imports them: the page, the kernels, the events that the server sends for us.
NOT_IMPORTED = {"ipykernel", "jupyter-events", "jupyterlab"}


def imported_modules() -> dict[str, str]:
    """Return each third-party top-level module that our packages import, with a file that does."""
    found: dict[str, str] = {}
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in modules_in(path.read_text()):
                if name not in OURS and name not in sys.stdlib_module_names:
                    found.setdefault(name, path.relative_to(ROOT).as_posix())
    return found


def modules_in(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", name, maxsplit=1)[0]).lower()


def declared(*extras: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return {normal(name) for name in wanted}


def test_every_import_is_declared():
    """Somebody imports what another package happens to bring today."""
    distributions = packages_distributions()
    # A framework that a person may or may not have; we only look whether it is there.
    optional = {"cupy", "jax", "tensorflow", "torch"}
    known = declared("kubernetes", "hub", "dashboard")
    for module, path in imported_modules().items():
        if module not in optional:
            brought_by = {normal(name) for name in distributions.get(module, [module])}
            assert brought_by & known, (
                f"{path} imports {module}, which pyproject.toml does not name"
            )


def test_every_dependency_is_imported():
    """A dependency outlives the code that needed it."""
    distributions = packages_distributions()
    used = {
        normal(name)
        for module in imported_modules()
        for name in distributions.get(module, [module])
    }
    assert declared() - used - NOT_IMPORTED == set()
