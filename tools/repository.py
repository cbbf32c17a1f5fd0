"""Rules about the repository as a whole; each returns the sentences of what breaks it.

They run in `make check` and, so that nobody can forget them, in the tests.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.lock import LOCKS
from tools.progress import ROOT

MAX_CODE_LINES = 400
COUNTED = {".css", ".js", ".mjs", ".py", ".ts", ".tsx"}
COMMENT_STARTS = ("#", "//", "/*", "*")
LOCK_FILE = re.compile(r"(^|/)(requirements/[^/]+\.(txt|in)|[^/]*lock\.json|[^/]+\.lock|go\.sum)$")
ADDRESS = re.compile(
    r"\b(https?|git|ssh|file)(\+\w+)?://|\bresolved\b|--(index|find)", re.IGNORECASE
)
GENERATED = re.compile(
    r"(^|/)(generated|node_modules)/|\.generated\.|\.min\.|(^|/)src/api/schema\.ts$"
)


def main() -> int:
    """Print every broken rule; return 1 if there is one."""
    complaints = [sentence for rule in RULES for sentence in rule()]
    print("\n".join(complaints) or "every rule about the repository holds")
    return 1 if complaints else 0


def project_files() -> list[Path]:
    """Return every file of the project: what git tracks and what it would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        ROOT / name for name in sorted(set(answer.stdout.split("\0"))) if (ROOT / name).is_file()
    ]


def long_files() -> Iterable[str]:
    """Yield a sentence for each source file with more code lines than a reader holds."""
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in COUNTED and not GENERATED.search(name):
            count = code_lines(path.read_text())
            if count > MAX_CODE_LINES:
                yield f"{name} has {count} code lines, over {MAX_CODE_LINES}: split it by subject"


def code_lines(text: str) -> int:
    """Return how many lines are neither blank nor only a comment."""
    stripped = (line.strip() for line in text.splitlines())
    return sum(1 for line in stripped if line and not line.startswith(COMMENT_STARTS))


def addresses_in_locks() -> Iterable[str]:
    """Yield a sentence for each line of a lock file that says where to download from."""
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if LOCK_FILE.search(name):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if ADDRESS.search(line):
                    yield f"{name}:{number} holds a download address: {line.strip()[:80]}"


def stale_locks() -> Iterable[str]:
    """Yield a sentence for each Python lock file that is out of step with what is wanted."""
    for lock in LOCKS:
        if not lock.is_current():
            yield f"requirements/{lock.name} is out of step with {lock.source}: run `make lock`"


def versions() -> Iterable[str]:
    """Yield a sentence when the lab extension's version differs from the package's."""
    manifest = ROOT / "labextension" / "package.json"
    if not manifest.exists():
        return
    text = (ROOT / "kai_jupyter" / "_version.py").read_text()
    wheel = re.search(r'__version__ = "([^"]+)"', text)
    page = json.loads(manifest.read_text())["version"]
    if wheel is None or wheel[1] != page:
        yield f"labextension/package.json says version {page}, kai_jupyter/_version.py does not"


RULES: tuple[Callable[[], Iterable[str]], ...] = (
    long_files,
    addresses_in_locks,
    stale_locks,
    versions,
)


if __name__ == "__main__":
    sys.exit(main())
