"""Nodes without a machine behind them, and the commands for the pods that are bound to them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.testbed.admin import Admin, ApiError, Object
from tests.cluster.testbed.player import DEVICES, ENDS, FAKE_LABEL, GPU, HOLD
from tests.cluster.testbed.process import Process

ROOT = Path(__file__).resolve().parent.parent.parent.parent
NODES = "/api/v1/nodes"


@dataclass(frozen=True, slots=True)
class Shape:
    """What one fake node offers; the labels are those of the GPU operator's discovery."""

    gpus: int = 8
    gpu_memory_mib: int = 81_920
    gpu_product: str = "NVIDIA-H100-80GB-HBM3"
    cpu: str = "96"
    memory: str = "1024Gi"
    pods: int = 250
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    extended: Mapping[str, str] = field(default_factory=dict)

    def manifest(self, name: str) -> Object:
        """Return the Node that a kubelet of this shape would register."""
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.extended}
        labels = {FAKE_LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        if self.gpus:
            amounts[GPU] = str(self.gpus)
            labels |= {
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.count": str(self.gpus),
                "nvidia.com/gpu.memory": str(self.gpu_memory_mib),
                "nvidia.com/gpu.product": self.gpu_product,
            }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {**labels, **self.labels},
                "annotations": dict(self.annotations),
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "addresses": [{"type": "Hostname", "address": name}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }


class FakeNodes:
    """All fake nodes of a cluster; one player process stands for all their kubelets."""

    def __init__(self, admin: Admin, folder: Path) -> None:
        self._admin = admin
        command = [sys.executable, "-m", "tests.cluster.testbed.player", admin.login.kubeconfig]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        self.player = Process("player", command, log=folder / "player.log", environment=environment)

    def add(self, name: str, *, count: int | None = None, **shape: Any) -> list[str]:
        """Add one node called `name`, or `count` called `name-0` …; `shape` as in Shape."""
        form = Shape(**shape)
        names = [name] if count is None else [f"{name}-{index}" for index in range(count)]

        def add_one(one: str) -> None:
            self._admin.post(NODES, form.manifest(one))
            # Admission taints a new node; what takes the taint off again is not running here.
            self._admin.patch(f"{NODES}/{one}", {"spec": {"taints": list(form.taints) or None}})

        self._admin.in_parallel(add_one, names)
        return names

    def change(self, name: str, body: Object) -> None:
        """Change a node (labels, taints, unschedulable) by a merge patch."""
        self._admin.patch(f"{NODES}/{name}", body)

    def offer(self, name: str, amounts: Mapping[str, str]) -> None:
        """Change what a node has: `{"nvidia.com/gpu": "4"}` when a device is lost."""
        body = {"status": {"capacity": dict(amounts), "allocatable": dict(amounts)}}
        self._admin.patch(f"{NODES}/{name}/status", body)

    def not_ready(self, name: str) -> None:
        """Let a node be unreachable: its condition and the taint that keeps others away."""
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        self._admin.patch(
            f"{NODES}/{name}/status", {"status": {"conditions": [condition]}}, "strategic"
        )
        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
        self._admin.patch(f"{NODES}/{name}", {"spec": {"taints": [taint]}})

    def vanish(self, name: str) -> None:
        """Remove a node as a cloud does; its pods stay until somebody removes them."""
        self._admin.delete(f"{NODES}/{name}")

    def remove(self, names: Iterable[str] | None = None) -> None:
        """Remove nodes; all fake ones when none are named."""
        if names is not None:
            self._admin.in_parallel(self.vanish, names)
            return
        for one in self._admin.list(NODES, labelSelector=FAKE_LABEL):
            self.vanish(one["metadata"]["name"])

    def hold_start(self, path: str) -> None:
        """Keep a bound pod from starting (an image that takes long)."""
        self._note(path, HOLD, "start")

    def hold_end(self, path: str) -> None:
        """Keep a deleted pod from ending (a process that ignores its notice)."""
        self._note(path, HOLD, "end")

    def let_go(self, path: str) -> None:
        """Undo `hold_start` and `hold_end`."""
        self._note(path, HOLD, None)

    def finish(self, path: str) -> None:
        """Let a running pod end well."""
        self._note(path, ENDS, "Succeeded")

    def fail(self, path: str) -> None:
        """Let a running pod end with exit code 1."""
        self._note(path, ENDS, "Failed")

    def lose(self, path: str) -> None:
        """Make a pod vanish without a word, as after a node was reset."""
        self._admin.delete(path, grace_s=0)

    def devices(self, path: str) -> list[str]:
        """Return the ids of the devices that the fake device plug-in gave to a pod."""
        notes = self._admin.get(path)["metadata"].get("annotations", {})
        return [one for one in notes.get(DEVICES, "").split(",") if one]

    def _note(self, path: str, name: str, value: str | None) -> None:
        try:
            self._admin.patch(path, {"metadata": {"annotations": {name: value}}})
        except ApiError as error:
            if error.status != 404 or value is not None:
                raise
