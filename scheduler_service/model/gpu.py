"""What a pod asks of GPUs, and what it holds of them."""

from __future__ import annotations

import msgspec


class WholeGpus(msgspec.Struct, frozen=True, gc=False, tag="whole"):
    """`count` GPUs of one node, each for this pod alone."""

    count: int


class FractionOfGpu(msgspec.Struct, frozen=True, gc=False, tag="fraction"):
    """`milli` thousandths of each of `devices` different GPUs of one node."""

    milli: int
    devices: int = 1


class GpuMemory(msgspec.Struct, frozen=True, gc=False, tag="memory"):
    """`mib` of device memory on each of `devices` different GPUs of one node."""

    mib: int
    devices: int = 1


class Mig(msgspec.Struct, frozen=True, gc=False, tag="mig"):
    """MIG slices by profile, as pairs (profile, count) in order of the profile."""

    profiles: tuple[tuple[str, int], ...]

    def compute_slices(self) -> int:
        """Return the GPUs this counts as for queues: g-number times count, summed."""
        return sum(mig_compute_slices(profile) * count for profile, count in self.profiles)


GpuRequest = WholeGpus | FractionOfGpu | GpuMemory | Mig


class GpuShare(msgspec.Struct, frozen=True, gc=False):
    """What one pod holds of one device: its id on the node, milli-GPU and MiB (0 = not known)."""

    device: str
    milli: int
    memory_mib: int = 0


def mig_compute_slices(profile: str) -> int:
    """Return the g of a profile such as "3g.20gb"; 0 for a name of another form."""
    head = profile.removeprefix("nvidia.com/mig-").partition("g.")[0]
    return int(head) if head.isdigit() else 0
