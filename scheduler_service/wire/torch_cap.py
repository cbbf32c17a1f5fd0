"""Hold PyTorch to the memory share, in the kernel that has a lease and in the workers of a gang.

PyTorch has no variable for it in all its versions, so the cap is set when the program imports it, and takes effect
when CUDA starts.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

WHOLE = 1.0


def cap_torch() -> None:
    """Cap PyTorch at this process's share, now if it is imported, else when it is."""
    if share() is None:
        return
    loaded = sys.modules.get("torch")
    if loaded is not None:
        apply(loaded)
    elif not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())


def share() -> float | None:
    """Return the share of the device's memory from the environment; None where there is no real device or no share."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        return None
    try:
        value = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", ""))
    except ValueError:
        return None
    return value if 0 < value < WHOLE else None


def apply(torch: Any) -> None:
    """Set the cap as soon as CUDA starts in this process."""
    fraction = share()
    cuda = getattr(torch, "cuda", None)
    when_started = getattr(cuda, "_lazy_call", None)
    if fraction is None or cuda is None or when_started is None:
        return
    when_started(lambda: cuda.set_per_process_memory_fraction(share() or WHOLE))


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Notices the import of PyTorch once, and then steps aside."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Wrap the loader of `torch`; every other module is not ours."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _CappingLoader(spec.loader)
        return spec


class _CappingLoader(importlib.abc.Loader):
    """Loads as the loader it wraps, then caps."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Make the module as the wrapped loader does."""
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then cap it."""
        self._inner.exec_module(module)
        apply(module)
