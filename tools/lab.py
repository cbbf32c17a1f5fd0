"""`make lab`: JupyterLab on the tour; `make smoke` starts the same without a window."""

from __future__ import annotations

import os
import sys

from tools.environment import BIN, build_environment
from tools.progress import ROOT

TOUR = "demo_notebooks/00_tour.ipynb"
SETTINGS = ROOT / "tools" / "jupyter"
"""Other defaults for JupyterLab: its question about news stays away. What a person has set wins."""
OPTIONS = (
    # No news, no look-up of newer versions: nothing that leaves this machine by itself.
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    # Kernel messages are encrypted between the processes of this machine, too.
    "--KernelManager.transport_encryption=auto",
)


def command(*, opens_window: bool = True, port: int | None = None) -> list[str]:
    """Return the command that starts JupyterLab with the tour open."""
    arguments = [str(BIN / "jupyter"), "lab", *OPTIONS, *root_options()]
    if not opens_window:
        arguments.append("--no-browser")
    if port is not None:
        arguments.append(f"--ServerApp.port={port}")
    return [*arguments, TOUR] if (ROOT / TOUR).exists() else arguments


def environment() -> dict[str, str]:
    """Return the environment in which JupyterLab starts: our tools first, and our settings."""
    built = build_environment()
    paths = [str(SETTINGS), *filter(None, [built.get("JUPYTER_CONFIG_PATH")])]
    return {**built, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


def root_options() -> list[str]:
    """Return what Jupyter wants to hear before it runs as root."""
    return ["--allow-root"] if os.geteuid() == 0 else []


def main() -> None:
    """Become JupyterLab, so that Ctrl-C and signals reach it directly."""
    print(
        "· Starting JupyterLab on the tour; Ctrl-C stops it, work in the queue goes on", flush=True
    )
    arguments = [*command(), *sys.argv[1:]]
    os.chdir(ROOT)
    os.execve(arguments[0], arguments, environment())


if __name__ == "__main__":
    main()
