"""Builds the fake NVML and asks the real binding through it, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml.c")
ROOT = Path(__file__).parents[2]


def build(folder: Path) -> Path:
    """Return a folder with a `libnvidia-ml.so.1`; skip where there is no C compiler or no ELF."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler for the fake NVML")
    target = folder / "libnvidia-ml.so.1"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(target)]
    subprocess.run([*command, str(SOURCE)], check=True)
    return folder


def ask(library: Path, world: Path, script: str, *args: str) -> str:
    """Return what `script` prints in a process that finds the library and the world."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "LD_LIBRARY_PATH": str(library),
        "KAI_FAKE_NVML": str(world),
    }
    answer = subprocess.run(
        [sys.executable, "-c", script, *args],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout
