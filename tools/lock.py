"""`make lock`: the lock files, with hashes and without any download address.

Each lock file opens with the hash of what it was made from, so that `make check` can tell a stale
one without asking a package index.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass

from tools.progress import ROOT

FOLDER = ROOT / "requirements"
MARK = "# made from "
OPTIONS = (
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
)


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file: its name, what it is compiled from, how."""

    name: str
    source: str
    options: tuple[str, ...] = ()

    def inputs_digest(self) -> str:
        """Return the hash of the wanted packages; formatting and comments do not count."""
        if self.source.endswith(".toml"):
            project = tomllib.loads((ROOT / self.source).read_text())["project"]
            parts = ("requires-python", "dependencies", "optional-dependencies")
            wanted = json.dumps([project[part] for part in parts], sort_keys=True)
        else:
            wanted = (ROOT / self.source).read_text().strip()
        return hashlib.sha256(wanted.encode()).hexdigest()

    def is_current(self) -> bool:
        """Tell whether the lock file was made from what is wanted today."""
        path = FOLDER / self.name
        return path.exists() and path.read_text().startswith(MARK + self.inputs_digest())


LOCKS = (
    Lock("dev.txt", "pyproject.toml", ("--extra", "dev")),
    Lock("uv.txt", "requirements/uv.in", ("--constraint", "requirements/dev.txt")),
    Lock("node.txt", "requirements/node.in"),
    Lock(
        "image.txt",
        "pyproject.toml",
        ("--extra", "kubernetes", "--constraint", "requirements/dev.txt"),
    ),
    Lock("go.txt", "requirements/go.in"),
)


def main() -> int:
    """Compile the stale lock files (all with --upgrade); return the exit status."""
    is_upgrade = "--upgrade" in sys.argv[1:]
    for lock in LOCKS:
        if lock.is_current() and not is_upgrade:
            print(f"requirements/{lock.name} is current")
            continue
        _compile(lock, ("--upgrade",) if is_upgrade else ())
        print(f"requirements/{lock.name} made from {lock.source}")
    return 0


def _compile(lock: Lock, extra: tuple[str, ...]) -> None:
    """Write the lock file of `lock`, keeping locked versions that still serve."""
    target = FOLDER / lock.name
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *OPTIONS]
    command += [*lock.options, *extra, lock.source, "--output-file", str(target)]
    subprocess.run(command, cwd=ROOT, check=True)
    target.write_text(f"{MARK}{lock.inputs_digest()}\n{target.read_text()}")


if __name__ == "__main__":
    sys.exit(main())
