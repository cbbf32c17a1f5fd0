"""A notebook's kernel in a pod of the real node: started by Jupyter's own manager, through our provisioner and API."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.multikernelmanager import AsyncMultiKernelManager

from kai_jupyter import kernel_host
from kai_jupyter.kernel_host import KernelHost
from kai_jupyter.kernel_records import KernelRecord
from scheduler_service.wire.pod_group import PodGroupView, Process, Submit
from tests.cluster.notebook_bed import Desk, desk, notebook
from tests.cluster.testbed.cluster import Cluster
from tests.cluster.testbed.real_node import RealNode

SLOW_S = 600
WHERE = "import os; print(os.environ['KAI_POD'], os.environ['NVIDIA_VISIBLE_DEVICES'], os.getpid())"
KERNEL = {"amount": "1", "preemptible": True, "grace": 1}
"""The default queue guarantees nothing, so only what may be taken back starts there."""
SERVER = """
import asyncio, json, sys
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
async def main():
    server = AsyncMultiKernelManager()
    server.connection_dir = sys.argv[1]
    kernel = server.get_kernel(await server.start_kernel(kernel_name="pod"))
    told = [kernel.kernel_id, kernel.connection_file, kernel.provisioner.holding]
    print(json.dumps(told), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
"""A Jupyter server to be killed: it starts a kernel and tells of it."""
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def place(
    kai_cluster: Cluster,
    real_node: RealNode,
    say: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    with desk(kai_cluster, say, tmp_path_factory.mktemp("kept")) as found:
        yield found
    kai_cluster.clean()


class Ana:
    """Ana and her Jupyter server, as far as kernels need one."""

    def __init__(self, place: Desk, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.desk, self.folder = place, folder
        self.session = notebook(place, folder, patch)
        self.client = self.session.client
        patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
        spec = folder / "jupyter" / "kernels" / "pod"
        spec.mkdir(parents=True)
        stanza = {"provisioner_name": "kai-provisioner", "config": KERNEL}
        content = {
            "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python in a pod",
            "language": "python",
            "metadata": {"kernel_provisioner": stanza},
        }
        (spec / "kernel.json").write_text(json.dumps(content))

    def server(self) -> AsyncMultiKernelManager:
        """Return the kernels of one Jupyter server."""
        manager = AsyncMultiKernelManager()
        manager.connection_dir = str(self.folder)
        return manager

    def pods(self) -> list[str]:
        """Return the names of the pods that nobody ends."""
        found: list[dict[str, Any]] = self.desk.cluster.admin.list(self.desk.pods)
        return [
            pod["metadata"]["name"] for pod in found if not pod["metadata"].get("deletionTimestamp")
        ]

    async def group(self, right: Callable[[PodGroupView], bool]) -> PodGroupView:
        """Return the live group of hers that `right` says yes of, as soon as there is one."""
        async with asyncio.timeout(SLOW_S):
            while True:
                listed = await asyncio.to_thread(self.client.groups, mine=True)
                for group in listed.items:
                    if not group.ended_at and right(group):
                        return group
                await asyncio.sleep(0.2)

    async def cancel(self, group: PodGroupView) -> None:
        await asyncio.to_thread(self.client.cancel, group.namespace, group.name)


@pytest.fixture
def ana(place: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ana]:
    found = Ana(place, tmp_path, monkeypatch)
    yield found
    found.session.close()
    place.cluster.admin.wait_for(
        place.pods, lambda left: not left, "no pod is left of a kernel", fail_safe_s=SLOW_S
    )


@asynccontextmanager
async def cells(client: AsyncKernelClient) -> AsyncIterator[Run]:
    """Give what runs a cell and returns what it printed."""
    client.start_channels()
    await client.wait_for_ready(timeout=SLOW_S)

    async def run(code: str, said: asyncio.Event | None = None) -> str:
        texts: list[str] = []

        def hear(told: dict[str, Any]) -> None:
            if told["msg_type"] == "stream":
                texts.append(told["content"]["text"])
                if said is not None:
                    said.set()
            elif told["msg_type"] == "error":
                texts.append(told["content"]["ename"])

        await client.execute_interactive(code, output_hook=hear, timeout=SLOW_S)
        return "".join(texts).strip()

    yield run
    client.stop_channels()


def test_it_runs_is_interrupted_and_restarted_and_gives_its_gpu_back(ana: Ana) -> None:
    async def story() -> str:
        server = ana.server()
        kernel: Any = server.get_kernel(await server.start_kernel(kernel_name="pod"))
        async with cells(kernel.client()) as run:
            pod, device, pid = (await run(WHERE)).split()
            assert ana.pods() == [pod]
            assert device.startswith("GPU-real-")
            said = asyncio.Event()
            told = "x = 5\nprint('up', flush=True)\nimport time; time.sleep(1000)"
            sleeping = asyncio.ensure_future(run(told, said))
            await asyncio.wait_for(said.wait(), SLOW_S)
            await kernel.interrupt_kernel()
            assert (await sleeping).split() == ["up", "KeyboardInterrupt"]
            assert await run("print(x)") == "5"
        objects = json.dumps(ana.desk.cluster.admin.list(ana.desk.pods))
        for secret in (kernel.session.key, kernel.curve_secretkey):
            assert secret.decode() not in objects, "no key is in an object of the cluster"
        for now in (False, True):
            await kernel.restart_kernel(now=now)
            async with cells(kernel.client()) as run:
                after = (await run(WHERE)).split()
                assert after[:2] == [pod, device], "the pod and its GPU stay"
                assert after[2] != pid
                assert await run("print(x)") == "NameError"
                pid = after[2]
        await server.shutdown_all()
        return str(kernel.connection_file)

    assert not Path(asyncio.run(story())).exists(), "the keys go with the kernel"


def test_the_server_after_a_killed_one_takes_its_kernel_up(ana: Ana) -> None:
    command = [sys.executable, "-c", SERVER, str(ana.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        try:
            kernel_id, connection_file, lease = json.loads(killed.stdout.readline())
        finally:
            killed.kill()

    async def story() -> None:
        client = AsyncKernelClient()
        client.load_connection_file(connection_file)
        async with cells(client) as run:
            await run("y = 7")
        record = KernelRecord(
            kernel_id=kernel_id,
            kernel_name="pod",
            root="/",
            server=Process(pid=1, start_ticks=1),
            connection_file=connection_file,
            lease=tuple(lease),
        )
        later, host = ana.server(), KernelHost.alone()
        host.returning[kernel_id] = record
        kernel_host.serve(later, host)
        await later.start_kernel(kernel_name="pod", kernel_id=kernel_id)
        async with cells(later.get_kernel(kernel_id).client()) as run:
            assert await run("print(y)") == "7"
        await later.shutdown_all()
        await host.close()

    asyncio.run(story())


def test_a_pod_that_is_taken_away_ends_its_kernel_and_nothing_starts_it_again(ana: Ana) -> None:
    async def story() -> None:
        server = ana.server()
        kernel_id = await server.start_kernel(kernel_name="pod")
        (pod,) = ana.pods()
        ana.desk.cluster.admin.delete(f"{ana.desk.pods}/{pod}")
        async with asyncio.timeout(SLOW_S):
            while kernel_id in server:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.1)
        assert ana.pods() == []

    asyncio.run(story())


def test_who_takes_the_request_back_gets_the_kernel_here_without_a_gpu(ana: Ana) -> None:
    async def story() -> None:
        ask = Submit(kind="lease", gpu=4, preemptible=True, grace_s=0)
        await asyncio.to_thread(ana.client.submit, ask)
        held = await ana.group(lambda group: group.state == "Running")
        server = ana.server()
        starting = asyncio.ensure_future(server.start_kernel(kernel_name="pod"))
        waits = await ana.group(lambda group: group.kind == "kernel" and group.position == 1)
        assert waits.state == "Waiting"
        await ana.cancel(waits)
        kernel: Any = server.get_kernel(await starting)
        async with cells(kernel.client()) as run:
            assert await run("import os; print(os.environ.get('KAI_POD'))") == "None"
        await server.shutdown_all()
        await ana.cancel(held)

    asyncio.run(story())


def test_a_kernel_waits_for_its_gpu_and_starts_by_itself(ana: Ana) -> None:
    async def story() -> None:
        ask = Submit(kind="lease", gpu=4, preemptible=True, grace_s=0)
        await asyncio.to_thread(ana.client.submit, ask)
        held = await ana.group(lambda group: group.state == "Running")
        server = ana.server()
        starting = asyncio.ensure_future(server.start_kernel(kernel_name="pod"))
        await ana.group(lambda group: group.kind == "kernel" and group.position == 1)
        await ana.cancel(held)
        kernel: Any = server.get_kernel(await starting)
        async with cells(kernel.client()) as run:
            assert (await run(WHERE)).split()[0] in ana.pods()
        await server.shutdown_all()

    asyncio.run(story())
