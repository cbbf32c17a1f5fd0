"""Find the browser for the browser tests; install it where only that is missing and we may.

Tests skip with `MISSING` where there is none.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tools import progress
from tools.progress import StepError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-noto-core")
MISSING = (
    "there is no Chromium on this machine; install one (Debian: apt-get install chromium) "
    "and run the tests again"
)


def main() -> int:
    """Install Chromium when root on Debian and it is missing; say so when it cannot be had."""
    if find() is not None:
        return 0
    if not _may_install():
        print(f"Browser tests will be skipped: {MISSING}.")
        return 0
    try:
        with progress.step("Installing Chromium for the browser tests"):
            _install()
    except StepError as failure:
        print(f"{failure}\nBrowser tests will be skipped: {MISSING}.")
    return 0


def find() -> Path | None:
    """Return the path of a Chromium, from `KAI_TEST_BROWSER` or the usual names, or None."""
    named = os.environ.get("KAI_TEST_BROWSER")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    return Path(found) if found else None


def _may_install() -> bool:
    return os.geteuid() == 0 and Path("/etc/debian_version").exists()


def _install() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    progress.run("browser-index", ["apt-get", "update"], env=environment)
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    progress.run("browser", command, env=environment)


if __name__ == "__main__":
    sys.exit(main())
