"""`python -m kai_jupyter.hub.serve`: the scheduler as a service of JupyterHub, which tells it where the hub is."""

from __future__ import annotations

import os
import sys

RUN = "import sys; from scheduler_service.cli import main; sys.exit(main())"


def main() -> None:
    """Become `kai serve`; people are known by their hub tokens, and the hub's own token stays out of it."""
    environment = {**os.environ}
    environment.setdefault("KAI_HUB_URL", environment.get("JUPYTERHUB_API_URL", ""))
    environment.pop("JUPYTERHUB_API_TOKEN", None)
    command = [sys.executable, "-c", RUN, "serve", *sys.argv[1:]]
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
