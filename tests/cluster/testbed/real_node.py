"""One real node: containerd, runc, kubelet and a device plug-in that offers four fake GPUs.

Root only, inside the tests' network namespace. Pods reach the API server at the address that
Kubernetes tells them, each other by address and by name (`dns.py`). Images: `images.PYTHON` has
this machine's Python, our project and a few programs of a shell; nothing is ever pulled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Any

import yaml

from tests.cluster.testbed import images
from tests.cluster.testbed.admin import ApiError, Object
from tests.cluster.testbed.binaries import program
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.control_plane import API_ADDRESS
from tests.cluster.testbed.fake_nodes import ROOT
from tests.cluster.testbed.namespace import possible
from tests.cluster.testbed.player import GPU
from tests.cluster.testbed.process import Process, wait_until

NAME = "real-0"
BRIDGE = "kai0"
ADDRESS = "10.244.0.1"
PODS = "10.244.0.0/24"
GPUS = 4
CGROUP = "kai-test-"
# Mounts and processes of its own: all of them end with the first process, and that one with us.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
GPU_MEMORY_MIB = 16_384
CGROUPS = Path("/sys/fs/cgroup")
CNI = ("/usr/lib/cni", "/opt/cni/bin")
PROGRAMS = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2"}


def why_not() -> str | None:
    """Return the sentence why there can be no real node here, or None when there can."""
    if not possible():
        return "a real node needs root (it makes namespaces, cgroups and mounts)"
    missing = {package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    if _cni() is None:
        missing.add("containernetworking-plugins")
    if missing:
        return f"a real node needs packages: apt-get install {' '.join(sorted(missing))}"
    return None


class RealNode:
    """The node `real-0`; its programs' logs lie in `folder`."""

    name = NAME

    def __init__(self, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self.folder = cluster.folder / "node"
        self._cgroup = f"{CGROUP}{os.getpid()}"
        self._devices = self.folder / "devices"
        self._init: Process | None = None
        self._dns: Process | None = None

    def start(self) -> None:
        """Bring the node up; Ready with its devices when this returns."""
        self.folder.mkdir(parents=True)
        self.offer(*(f"GPU-real-{index:04d}" for index in range(GPUS)))
        self._say("writing the images of the real node …")
        archives = images.write_all(self.folder)
        _make_bridge()
        self._make_cgroups()
        self._write_settings()
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps(self._plan(archives)))
        admin_file = self._cluster.admin.login.kubeconfig
        self._dns = self._module("dns", "tests.cluster.testbed.dns", admin_file, ADDRESS).start()
        self._say("starting containerd, kubelet and the fake GPU plug-in …")
        self._init = self._module(
            "node", "tests.cluster.testbed.node_init", plan, before=ALONE
        ).start()
        self._await_ready()

    def stop(self) -> None:
        """End the node and everything that ran on it; nothing of it is left."""
        for process in (self._init, self._dns):
            if process is not None:
                process.kill()
        wait_until(self._cgroups_are_gone, "the node's control groups are empty")
        for name in ("containerd", "kubelet", "run", "pause.tar", "python.tar"):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Take the node out of the cluster once it has ended."""
        with suppress(ApiError):
            self._cluster.admin.delete(f"/api/v1/nodes/{NAME}")

    def offer(self, *devices: str) -> None:
        """Say which devices the plug-in has; "ID unhealthy" for one that broke."""
        fresh = self._devices.with_suffix(".new")
        fresh.write_text("".join(f"{one}\n" for one in devices))
        fresh.replace(self._devices)

    def signal(self, name: str, number: Signals) -> None:
        """Send a signal to `kubelet`, `containerd` or `fakegpu`; what ends is started anew."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes().split(b"\0")
                mine = str(self.folder).encode() in b" ".join(command)
                if mine and Path(os.fsdecode(command[0])).name == name:
                    os.kill(int(folder.name), number)

    def pod(
        self,
        name: str,
        namespace: str,
        command: Sequence[str],
        *,
        gpus: int = 0,
        environment: Mapping[str, str] | None = None,
        **meta: Any,
    ) -> Object:
        """Return a plain pod that runs `command` once with the Python image, for our scheduler."""
        limits = {GPU: str(gpus)} if gpus else {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, **meta},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "schedulerName": "kai-scheduler",
                "containers": [
                    {
                        "name": "main",
                        "image": images.PYTHON,
                        "imagePullPolicy": "Never",
                        "command": list(command),
                        "resources": {"limits": limits},
                        "env": [
                            {"name": key, "value": value}
                            for key, value in (environment or {}).items()
                        ],
                    }
                ],
            },
        }

    def _plan(self, archives: Sequence[Path]) -> Object:
        containerd = [shutil.which("containerd"), "-c", self.folder / "containerd.toml"]
        ctr = [shutil.which("ctr"), "-a", "/run/containerd/containerd.sock", "-n", "k8s.io"]
        kubelet = [
            program("kubelet", self._say),
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self._cluster.control_plane.node_login().kubeconfig}",
            f"--hostname-override={NAME}",
            f"--cert-dir={self.folder / 'pki'}",
            f"--node-ip={ADDRESS}",
        ]
        plugin = [program("fakegpu", self._say), self._devices]
        return {
            "folder": str(self.folder),
            "containerd": [str(part) for part in containerd],
            "ctr": [str(part) for part in ctr],
            "images": [str(path) for path in archives],
            "then": [[str(part) for part in command] for command in (kubelet, plugin)],
        }

    def _await_ready(self) -> None:
        init, admin = self._init, self._cluster.admin
        assert init is not None
        path = f"/api/v1/nodes/{NAME}"
        init.wait_until(lambda: admin.find(path) is not None, "the kubelet registers its node")
        admin.wait_for_one(path, _is_ready, f"the node is ready with {GPUS} devices")
        labels = {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(GPUS),
            "nvidia.com/gpu.memory": str(GPU_MEMORY_MIB),
            "nvidia.com/gpu.product": "NVIDIA-Fake-16GB",
        }
        admin.patch(path, {"metadata": {"labels": labels}, "spec": {"taints": None}})

    def _write_settings(self) -> None:
        (self.folder / "containerd.toml").write_text(
            CONTAINERD.format(folder=self.folder, cni=_cni())
        )
        network = self.folder / "cni"
        network.mkdir()
        (network / "10-bridge.conflist").write_text(json.dumps(NETWORK))
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet_settings()))

    def _kubelet_settings(self) -> Object:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            # Nobody but the tests' own namespace reaches it.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "resolvConf": "",
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "nodeStatusUpdateFrequency": "4s",
        }

    def _make_cgroups(self) -> None:
        for parent in _hierarchies():
            for left in parent.glob(f"{CGROUP}*"):  # by tests that were killed
                if not Path("/proc", left.name.removeprefix(CGROUP)).exists():
                    _remove(left)
            path = parent / self._cgroup
            path.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # of version 1: empty until they are set
                if (path / name).exists() and not (path / name).read_text().strip():
                    (path / name).write_text((parent / name).read_text())

    def _cgroups_are_gone(self) -> bool:
        return all(_remove(parent / self._cgroup) for parent in _hierarchies())

    def _module(
        self, name: str, module: str, *arguments: str | Path, before: Sequence[str] = ()
    ) -> Process:
        paths = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        return Process(
            name,
            [*before, sys.executable, "-m", module, *arguments],
            log=self._cluster.folder / f"{name}.log",
            environment={**paths, "PYTHONPATH": str(ROOT)},
        )


def _is_ready(node: Object) -> bool:
    conditions = node["status"].get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and node["status"]["allocatable"].get(GPU) == str(GPUS)


def _hierarchies() -> list[Path]:
    """Return the roots of the control groups: one of version 2, several of version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in sorted(CGROUPS.iterdir()) if path.is_dir() and not path.is_symlink()]


def _remove(group: Path) -> bool:
    """Remove a control group with all below it; False when something is still in it."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()


def _make_bridge() -> None:
    for arguments in (
        f"link add {BRIDGE} type bridge",
        f"addr add {ADDRESS}/24 dev {BRIDGE}",
        f"addr add {API_ADDRESS}/32 dev {BRIDGE}",  # where pods look for the API server
        f"link set {BRIDGE} up",
    ):
        subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


def _cni() -> str | None:
    return next((folder for folder in CNI if (Path(folder) / "bridge").exists()), None)


NETWORK = {
    "cniVersion": "0.4.0",
    "name": "kai",
    "plugins": [
        {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "/run/cni",
            },
        },
        {"type": "loopback"},
    ],
}
# A negative oom_score_adj is refused in some sandboxes: without `restrict_oom_score_adj` no pod
# would start there.
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "example.local/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
