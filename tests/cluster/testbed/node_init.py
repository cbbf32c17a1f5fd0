"""Process 1 of the real node: containerd, kubelet and the fake GPU plug-in, in namespaces of its own.

Started by `real_node.py` through `unshare` with new mount and process namespaces. So the places
that are fixed in these programs (/var/lib/kubelet, /run, /var/log) are folders of the test's, all
mounts are gone with the last process, and the last process is gone with this one.
A program that ends is started anew, so that a test may kill one.

    python -m tests.cluster.testbed.node_init PLAN.json
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MS_BIND = 4096
PAUSE_S = 0.2
# Where the programs want to be, and the folder of the node that is put there.
PLACES = {"/var/lib/kubelet": "kubelet", "/run": "run", "/var/log": "log"}


def main(plan: dict[str, Any]) -> None:
    """Bring the node up and keep it up until this process is ended."""
    folder = Path(plan["folder"])
    for place, name in PLACES.items():
        _bind(folder / name, Path(place))
    containerd = _start(plan["containerd"], folder)
    _until_answers(plan["ctr"])
    for archive in plan["images"]:
        subprocess.run([*plan["ctr"], "images", "import", archive], check=True)
    running = {containerd: plan["containerd"]}
    running |= {_start(command, folder): command for command in plan["then"]}
    while True:
        pid, _ = os.wait()  # as process 1 we also collect what others left behind
        command = running.pop(pid, None)
        if command is not None:
            time.sleep(PAUSE_S)
            running[_start(command, folder)] = command


def _bind(source: Path, place: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(str(source).encode(), str(place).encode(), None, MS_BIND, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount on {place}: {os.strerror(number)}")


def _start(command: list[str], folder: Path) -> int:
    with (folder / f"{Path(command[0]).name}.log").open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ).pid


def _until_answers(ctr: list[str]) -> None:
    while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode != 0:
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
