"""What runs in a reservation pod: it learns which GPU it was given, writes that on its own pod, and waits.

Least privilege: the one thing it may do is to change pods of its own namespace, and a shipped admission policy keeps
it to its own. While it waits it is a bare interpreter, a few MiB.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from scheduler_service.agent.nvml import Devices, Nvml, Trouble
from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.access import Access
from scheduler_service.backends.kubernetes.client import KubeClient, Retries
from scheduler_service.errors import BackendError, ConfigurationError

WAIT = """
import signal, sys
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: sys.exit(0))
print("This pod holds", sys.argv[1], "for those who share it.", flush=True)
while True:
    signal.pause()
"""
PATIENT = Retries(tries=20, first_s=0.2, longest_s=5.0)


def own_gpu(environ: Mapping[str, str], read: Devices | Trouble | None = None) -> str:
    """Return the UUID of the one GPU this container was given: as the device plug-in named it, else as NVML does.

    `read` stands for NVML's answer; without it NVML is asked where it is needed.
    """
    told = environ.get(names.ENV_VISIBLE_DEVICES, "").removeprefix(names.CDI_PREFIX)
    if told.startswith(("GPU-", "MIG-")) and "," not in told:
        return told
    found = _ask_nvml() if read is None else read
    if isinstance(found, Trouble):
        raise BackendError(
            "This pod does not know which GPU it was given.",
            why=f"{names.ENV_VISIBLE_DEVICES} is {told or 'not set'}, and {found.text}",
        )
    if len(found.devices) != 1:
        raise BackendError(
            f"A reservation holds one GPU, and this one sees {len(found.devices)}.",
            hint="Its runtime must show a container the devices it was given, and no others.",
        )
    return found.devices[0].uuid


def _ask_nvml() -> Devices | Trouble:
    nvml = Nvml()
    try:
        return nvml.read()
    finally:
        nvml.close()


def run(environ: Mapping[str, str], access: Access | None = None) -> None:
    """Tell the GPU on our own pod, then become a process that only waits."""
    namespace, name = environ.get("POD_NAMESPACE"), environ.get("POD_NAME")
    if not namespace or not name:
        raise ConfigurationError(
            "'kai reserve' runs in a reservation pod only.",
            why="POD_NAME and POD_NAMESPACE are not set.",
        )
    gpu = own_gpu(environ)
    asyncio.run(_tell(access or Access.load(), namespace, name, gpu))
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", WAIT, gpu])


async def _tell(access: Access, namespace: str, name: str, gpu: str) -> None:
    body = {"metadata": {"annotations": {names.RESERVED_GPU: gpu}}}
    async with KubeClient(access, retries=PATIENT, connections=1) as client:
        await client.patch(names.PODS.path(namespace, name), body)
