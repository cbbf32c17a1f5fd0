"""The images on the real node: the sandbox's, and one with this machine's Python and our project.

The second holds what a release image holds: the interpreter, exactly the distributions that the
project's base install and its `kubernetes` extra ask for (in the locked versions, as they lie in
the environment that runs the tests), and the project. It also has a shell, `sleep` and their like,
so that it serves as a workload's image. Layers that did not change are kept in the cache.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.cluster.testbed.binaries import cache_folder, program
from tests.cluster.testbed.fake_nodes import ROOT
from tests.cluster.testbed.oci import Image, Layer, LayerWriter

PAUSE = "example.local/pause:1"
PYTHON = "example.local/kai-jupyter:test"
PROJECT = "kai-jupyter"
EXTRAS = ("kubernetes",)
PACKAGES = ("scheduler_service", "kai_jupyter")
SITE = "opt/kai"
PROGRAMS = (
    "cat",
    "dash",
    "echo",
    "env",
    "false",
    "head",
    "id",
    "ls",
    "printenv",
    "sleep",
    "tail",
    "true",
)
BUILD = f"config-{sys.version_info.major}.{sys.version_info.minor}-{platform.machine()}-linux-gnu"
NOT_NEEDED = (
    BUILD,
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "site-packages",
)
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
USER = 1000
KAI = """#!/usr/local/bin/python3
import sys
from scheduler_service.cli import main
sys.exit(main())
"""


def write_all(folder: Path) -> list[Path]:
    """Write both images into a folder; returns their archives."""
    layers = cache_folder() / "layers"
    return [
        Image(PAUSE, [_pause(layers)], entrypoint=["/pause"]).write(folder / "pause.tar"),
        Image(
            PYTHON,
            [_interpreter(layers), _dependencies(layers), _project(layers)],
            command=["python3"],
            environment={"PYTHONPATH": f"/{SITE}", "PYTHONDONTWRITEBYTECODE": "1"},
        ).write(folder / "python.tar"),
    ]


def _pause(folder: Path) -> Layer:
    layer = LayerWriter()
    layer.file(program("pause"), "pause")
    return layer.write(folder)


def _interpreter(folder: Path) -> Layer:
    layer = LayerWriter()
    for name in ("proc", "sys", "dev", "etc", "run", "var", "home", "root", "opt", "work"):
        layer.folder(name)
    layer.folder("tmp", 0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        layer.folder(f"usr/{name}")
        layer.link(name, f"usr/{name}")
    layer.text("etc/passwd", f"root:x:0:0::/root:/bin/sh\nuser:x:{USER}:{USER}::/tmp:/bin/sh\n")
    layer.text("etc/group", f"root:x:0:\nuser:x:{USER}:\n")
    layer.text("etc/nsswitch.conf", "hosts: files dns\n")
    executable = Path(sys.executable).resolve()
    own = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    standard = {Path(sysconfig.get_path(name, vars=own)) for name in ("stdlib", "platstdlib")}
    modules: list[Path] = []
    for path in standard:
        modules += layer.tree(path, str(path), without=NOT_NEEDED)
    # Not where it lies here, which may be below /tmp: pods have a /tmp of their own.
    layer.file(executable, "usr/local/bin/python3")
    programs = [Path(found).resolve() for name in PROGRAMS if (found := shutil.which(name))]
    for path in programs:
        layer.file(path)
    layer.link("usr/bin/sh", "dash")
    layer.link("usr/local/bin/python", "python3")
    shared = [path for path in modules if path.suffix == ".so"]
    for library in _libraries([executable, *programs, *shared]):
        layer.file(library.resolve(), _inside_usr(library))
    return layer.write(folder)


def _dependencies(folder: Path) -> Layer:
    layer = LayerWriter()
    shared: list[Path] = []
    for distribution in _closure(PROJECT, EXTRAS):
        for entry in distribution.files or ():
            path = Path(str(distribution.locate_file(entry)))
            if ".." in entry.parts or "__pycache__" in entry.parts or not path.is_file():
                continue
            layer.file(path, f"{SITE}/{entry}")
            if ".so" in path.suffixes:
                shared.append(path)
    for library in _libraries(shared):
        if "site-packages" not in library.parts:
            layer.file(library.resolve(), _inside_usr(library))
    return layer.write(folder)


def _project(folder: Path) -> Layer:
    layer = LayerWriter()
    for name in PACKAGES:
        layer.tree(ROOT / name, f"{SITE}/{name}", without=("labextension",))
    for entry in metadata.distribution(PROJECT).files or ():
        if ".dist-info" in str(entry) and entry.name in {"METADATA", "entry_points.txt"}:
            layer.file(Path(str(entry.locate())), f"{SITE}/{entry}")
    layer.text("usr/local/bin/kai", KAI, 0o755)
    return layer.write(folder)


def _closure(name: str, extras: Iterable[str]) -> Iterator[metadata.Distribution]:
    """Yield the distributions that `name` with its extras asks for, each once, not itself."""
    seen: set[str] = set()
    ahead = [(name, frozenset(extras))]
    while ahead:
        one, wanted = ahead.pop()
        for text in metadata.distribution(one).requires or ():
            need = Requirement(text)
            asked = need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            key = need.name.lower().replace("_", "-")
            if asked and key not in seen:
                seen.add(key)
                ahead.append((need.name, frozenset(need.extras)))
                yield metadata.distribution(need.name)


def _libraries(files: Iterable[Path]) -> list[Path]:
    """Return the shared libraries that programs and libraries need, the loader among them."""
    found: set[Path] = set()
    batch = [str(path) for path in files]
    for start in range(0, len(batch), 100):
        command = ["ldd", *batch[start : start + 100]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found.update(Path(os.path.normpath(path)) for path in LIBRARY.findall(done.stdout))
    return sorted(found)


def _inside_usr(path: Path) -> str:
    """Return where a library lies in an image whose /lib is a link to /usr/lib."""
    top = path.parts[1]
    return f"usr{path}" if top in {"lib", "lib64"} else str(path)
