"""`make check`: format, lint, types, architecture, generated files; every part runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.environment import BIN, LABEXTENSION, build_environment
from tools.progress import ROOT

PYTHON_CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("format", ("ruff", "format", "--check", "--quiet", ".")),
    ("lint", ("ruff", "check", "--quiet", ".")),
    ("types", ("mypy", "--no-error-summary")),
    ("imports", ("lint-imports", "--no-cache")),
    ("repository", ("python", "-m", "tools.repository")),
    ("generated", ("python", "-m", "tools.generate", "--check")),
)
PAGE_SCRIPTS = ("lint:check", "test")


def main() -> int:
    """Run all checks; print what fails in full; return 1 if any does."""
    failed = [name for name, command, folder in _checks() if not _passes(name, command, folder)]
    print(f"{len(failed)} checks failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def _checks() -> list[tuple[str, list[str], Path]]:
    """Return the checks as (name, command, folder)."""
    checks = [
        (name, [str(BIN / program), *arguments], ROOT)
        for name, (program, *arguments) in PYTHON_CHECKS
    ]
    manifest = LABEXTENSION / "package.json"
    scripts = json.loads(manifest.read_text())["scripts"] if manifest.exists() else {}
    checks += [
        (f"page {script}", [str(BIN / "jlpm"), script], LABEXTENSION)
        for script in PAGE_SCRIPTS
        if script in scripts
    ]
    return checks


def _passes(name: str, command: Sequence[str], folder: Path) -> bool:
    """Run one check and print its line, and its output if it fails."""
    start = time.monotonic()
    result = subprocess.run(
        command, cwd=folder, env=build_environment(), capture_output=True, text=True, check=False
    )
    verdict = "ok" if result.returncode == 0 else "FAILED"
    print(f"  {name:<22} {verdict:<7} {time.monotonic() - start:5.1f} s", flush=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr, flush=True)
    return result.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
