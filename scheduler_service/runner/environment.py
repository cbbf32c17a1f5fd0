"""The environment of a pod: the devices it may see, its share, and torchrun's variables for a gang. Pure.

What the person set (`work.env`) wins over defaults for comfort, never over what says which devices and which place are
the pod's. Every worker sees its own devices only; so with real devices each worker is a node of one for torchrun
(``LOCAL_RANK`` 0 indexes its first visible device), and without them all workers are local to one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler_service.wire.runner import StartOrder

LOOPBACK = "127.0.0.1"
_NOT_INHERITED = ("KAI_", "JUPYTERHUB_", "JPY_")
_INHERITED_ALL_THE_SAME = frozenset({"KAI_STATE_DIR", "KAI_SOCKET"})
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class GangPorts:
    """Loopback ports of one gang: the rendezvous and one for each rank."""

    master: int
    ranks: tuple[int, ...]


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the person's variables without the service's, the hub's and the notebook server's own."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_NOT_INHERITED) or name in _INHERITED_ALL_THE_SAME
    }


def pod_environment(
    order: StartOrder, environ: Mapping[str, str], *, ports: GangPorts | None, cores: int
) -> dict[str, str]:
    """Return the whole environment of the pod that `order` describes, on a machine with `cores` CPUs."""
    chosen = order.work.env if order.work else {}
    return (
        inherited(environ)
        | _comfort(order, cores)
        | dict(chosen)
        | _identity(order)
        | _devices(order)
        | _caps(order)
        | (_gang(order, ports) if ports else {})
    )


def _comfort(order: StartOrder, cores: int) -> dict[str, str]:
    comfort = {"PYTHONUNBUFFERED": "1"}
    if order.cpu_milli:
        comfort |= dict.fromkeys(_THREADS, str(max(1, order.cpu_milli // 1000)))
    elif order.workers > 1:
        comfort["OMP_NUM_THREADS"] = str(max(1, cores // order.workers))
    return comfort


def _identity(order: StartOrder) -> dict[str, str]:
    return {
        "KAI_POD": order.pod,
        "KAI_POD_GROUP": order.group,
        "KAI_NAMESPACE": order.namespace,
        "KAI_INCARNATION": order.incarnation,
        "KAI_NODE": order.node,
    }


def _devices(order: StartOrder) -> dict[str, str]:
    real = ",".join(device.id for device in order.devices if not device.simulated)
    variables = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": real,
        "NVIDIA_VISIBLE_DEVICES": real or "void",
        "KAI_GPU_DEVICES": ",".join(device.id for device in order.devices),
    }
    if order.devices:
        variables["KAI_GPU_FRACTION"] = f"{_milli(order) / 1000:g}"
    memory = _share_mib(order)
    if memory is not None:
        variables["KAI_GPU_MEMORY_MIB"] = str(memory)
    return variables


def _caps(order: StartOrder) -> dict[str, str]:
    """Return the caps on device memory that JAX, TensorFlow and the MPS daemon honour; the worker sets PyTorch's."""
    memory = _share_mib(order)
    real = [device for device in order.devices if not device.simulated]
    if not real or memory is None or not _is_shared(order):
        return {}
    caps = {
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(
            f"{place}={memory}M" for place in range(len(real))
        ),
    }
    total = real[0].memory_mib
    if total:
        caps["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{memory / total:.3f}"
    return caps


def _gang(order: StartOrder, ports: GangPorts) -> dict[str, str]:
    place = (
        {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(order.rank)}
        if has_real_device(order)
        else {
            "LOCAL_RANK": str(order.rank),
            "LOCAL_WORLD_SIZE": str(order.workers),
            "GROUP_RANK": "0",
        }
    )
    return place | {
        "RANK": str(order.rank),
        "WORLD_SIZE": str(order.workers),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(ports.master),
        "KAI_GANG_HOSTS": ",".join(f"{LOOPBACK}:{port}" for port in ports.ranks),
    }


def has_real_device(order: StartOrder) -> bool:
    """Whether the pod holds a part of a device that is there."""
    return any(not device.simulated for device in order.devices)


def gang_ports(variables: Mapping[str, str]) -> GangPorts | None:
    """Return the ports that a pod's environment tells, None outside a gang."""
    hosts = variables.get("KAI_GANG_HOSTS")
    if not hosts:
        return None
    ranks = tuple(int(host.rpartition(":")[2]) for host in hosts.split(","))
    return GangPorts(int(variables["MASTER_PORT"]), ranks)


def _is_shared(order: StartOrder) -> bool:
    return 0 < _milli(order) < 1000  # noqa: PLR2004 - milli-GPU


def _milli(order: StartOrder) -> int:
    if order.fraction_milli:
        return order.fraction_milli
    return order.devices[0].milli if order.devices else 0


def _share_mib(order: StartOrder) -> int | None:
    if order.share_mib is not None:
        return order.share_mib
    return order.devices[0].share_mib if order.devices else None
