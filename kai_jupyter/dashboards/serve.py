"""`jupyter kai dashboard`: the page of a team's lead, served by Voila on this machine.

Rules: 1. A viewer can not run code: the page's socket passes widget messages only (Voila's own list, held here too).
2. The kernel asks the service as whoever started this, so the address has a token. 3. A kernel that nobody looks at is
ended, also when it is busy.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.utils import ensure_async
from traitlets.config import Config
from voila.app import Voila
from voila.shutdown_kernel_handler import VoilaShutdownKernelHandler

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE / "team.ipynb"
TEMPLATES = HERE / "share"
PAGE_MAY_SEND = (
    "comm_open",
    "comm_close",
    "comm_msg",
    "comm_info_request",
    "kernel_info_request",
    "shutdown_request",
)
"""No execute_request, no input, no debugging, no completion: nothing that runs what a page sends."""
LEFT_OUT = (
    "@kai/jupyter",
    "@jupyter-notebook/lab-extension",
    "@voila-dashboards/jupyterlab-preview",
    "jupyterlab_pygments",
)
"""Extensions that mean nothing here or fail; an allow-list would have to name Voila's own inner ones too."""
NOBODY_LOOKS_S = 60
PORT = 8866


class LookedAtKernels(AsyncMappingKernelManager):  # type: ignore[misc, unused-ignore]
    """Kernels that end some time after the last page left them, busy or not.

    Idleness is not asked: a warm kernel has done nothing for hours when its page comes, and must not be ended then.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call, unused-ignore]
        self._alone_since: dict[str, float] = {}

    async def cull_kernel_if_idle(self, kernel_id: str) -> None:
        """End a kernel that no page has been connected to for the whole time. Voila asks not of its warm ones."""
        is_alone = kernel_id in self and not self._kernel_connections.get(kernel_id, 0)
        if not is_alone:
            self._alone_since.pop(kernel_id, None)
            return
        since = self._alone_since.setdefault(kernel_id, time.monotonic())
        if time.monotonic() - since >= self.cull_idle_timeout:
            del self._alone_since[kernel_id]
            self.log.info("No page looks at kernel %s any more: it is ended.", kernel_id)
            ended: Any = self.shutdown_kernel(kernel_id)  # type: ignore[no-untyped-call, unused-ignore]
            await ensure_async(ended)


class PageLeaves(VoilaShutdownKernelHandler):  # type: ignore[misc, unused-ignore]
    """Ends the kernel of a page that goes. The browser sends this last word without the page's own headers."""

    def check_xsrf_cookie(self) -> None:
        """Ask for no XSRF token: who sends this has signed in, and knows the kernel's unguessable name."""


def settings() -> Config:
    """Return what the dashboard sets; a flag of the command line goes before it."""
    config = Config()
    config.Voila.auto_token = True
    config.Voila.port = PORT
    config.Voila.ip = "127.0.0.1"
    voila = config.VoilaConfiguration
    voila.template = "kai"
    voila.allow_template_override = "NO"
    voila.allow_theme_override = "NO"
    voila.extension_denylist = list(LEFT_OUT)
    voila.show_tracebacks = False
    voila.multi_kernel_manager_class = LookedAtKernels
    voila.preheat_kernel = True
    voila.default_pool_size = 1
    voila.file_allowlist = []
    voila.file_denylist = [".*"]
    kernels = config.MappingKernelManager
    kernels.allowed_message_types = list(PAGE_MAY_SEND)
    kernels.cull_idle_timeout = NOBODY_LOOKS_S
    kernels.cull_interval = NOBODY_LOOKS_S // 4
    return config


class KaiDashboard(Voila):  # type: ignore[misc, unused-ignore]
    """Voila with our page and our settings."""

    name = "kai-dashboard"
    description = __doc__ or ""

    def initialize(self, argv: Sequence[str] | None = None) -> None:
        """Put our settings below those of the command line."""
        self.update_config(settings())
        self.notebook_path = str(NOTEBOOK)
        self.root_dir = str(HERE)
        super().initialize(list(argv or ()))

    def init_handlers(self) -> list[Any]:
        """Let a page that goes end its kernel."""
        made: list[Any] = super().init_handlers()
        return [
            (path, PageLeaves if kind is VoilaShutdownKernelHandler else kind, *more)
            for path, kind, *more in made
        ]

    def init_settings(self) -> dict[str, Any]:
        """Hold the list of what a page may send, whatever version of Voila runs."""
        made: dict[str, Any] = super().init_settings()
        self.kernel_manager.allowed_message_types = list(PAGE_MAY_SEND)
        return made


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C."""
    known = os.environ.get("JUPYTER_PATH", "")
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(TEMPLATES), known]))
    KaiDashboard.launch_instance(argv=list(sys.argv[1:] if argv is None else argv))
    return 0


if __name__ == "__main__":
    sys.exit(main())
