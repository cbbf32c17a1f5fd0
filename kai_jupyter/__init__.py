"""The Jupyter side of kai-jupyter: magics, cards, server extension, provisioner.

Importing this package stays cheap: nothing heavy is imported here at start-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kai_jupyter._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kai_jupyter.gangs import gang
    from kai_jupyter.leases import gpu
    from kai_jupyter.progress import report

__all__ = ["__version__", "gang", "gpu", "load_ipython_extension", "report"]

_LAZY = {
    "gang": "kai_jupyter.gangs",
    "gpu": "kai_jupyter.leases",
    "report": "kai_jupyter.progress",
}


def __getattr__(name: str) -> Any:
    """Import `gang`, `gpu` and `report` when they are first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Give the shell `%gpu`, `%%gpu`, `%gang` and `%%gang` (`%load_ext kai_jupyter`)."""
    from kai_jupyter.magics import load

    load(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "@kai/jupyter"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from kai_jupyter.extension import KaiExtensionApp

    return [{"module": "kai_jupyter", "app": KaiExtensionApp}]
