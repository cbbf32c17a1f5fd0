"""Kernels that start with a GPU: they wait in the queue, keep the cells, may start without, and give all back."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest
from jupyter_client.manager import AsyncKernelManager

from kai_jupyter.extension import EVENT_SCHEMA
from tests.jupyter.conftest import fill
from tests.jupyter.server.conftest import until
from tests.jupyter.server.real import *  # noqa: F403 - fixtures
from tests.jupyter.server.real import Kernel, leases, live

pytestmark = pytest.mark.process

DEVICES = "import os; print('devices:', os.environ.get('KAI_GPU_DEVICES'), os.getpid())"


@pytest.fixture
def wanted():
    """Override to configure the kernel's provisioner."""
    return {"amount": "1"}


@pytest.fixture(autouse=True)
def kernelspec(jp_data_dir, wanted):
    """A kernelspec with the provisioner, as the wheel installs it."""
    folder = jp_data_dir / "kernels" / "kai-test"
    folder.mkdir(parents=True)
    provisioner = {"provisioner_name": "kai-provisioner", "config": wanted}
    spec = {
        "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "GPU",
        "language": "python",
        "metadata": {"kernel_provisioner": provisioner},
    }
    (folder / "kernel.json").write_text(json.dumps(spec))


@pytest.fixture
def full(service):
    """Hold both GPUs; return the lease that does."""
    with service.client() as client:
        yield fill(client)


@pytest.fixture
def queued(jp_serverapp, full, service):
    """Start a kernel that has to wait; return it with its request."""
    manager = jp_serverapp.kernel_manager

    async def queued():
        kernel = Kernel(manager, await manager.start_kernel(kernel_name="kai-test"))
        return kernel, await waiting(service, kernel)

    return queued


async def waiting(service, kernel):
    """Return the request of a kernel, once it waits in the queue."""
    found = []

    async def ask():
        found[:] = [v for v in await leases(service, kernel) if v.state == "Waiting"]
        return found

    for _ in range(3000):
        if await ask():
            return found[0]
        await asyncio.sleep(0.02)
    pytest.fail("the kernel never asked")


def end(service, view):
    with service.client() as client:
        client.cancel(view.namespace, view.name, grace_s=0)


async def test_a_kernel_starts_with_its_devices_and_keeps_them_over_a_restart(
    start, service, jp_serverapp
):
    kernel = await start("kai-test")
    first = (await kernel.run(DEVICES)).split()
    await jp_serverapp.kernel_manager.restart_kernel(kernel.id)
    kernel.close()
    await kernel.connect()
    second = (await kernel.run(DEVICES)).split()

    assert "GPU-sim-" in first[1]
    assert first[1] == second[1]
    assert first[2] != second[2]
    (lease,) = await leases(service, kernel)
    assert (lease.state, lease.kind) == ("Running", "kernel")
    kernel.close()
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel.id)
    with service.client() as client:
        await until(lambda: not live(client), "the lease ends")


async def test_the_magic_of_a_gpu_kernel_shows_the_lease_that_it_has(start, service):
    kernel = await start("kai-test")
    told = await kernel.run("%load_ext kai_jupyter\n%gpu")

    assert "1 GPU" in told
    assert len(await leases(service, kernel)) == 1
    kernel.close()


async def test_a_cell_that_was_run_meanwhile_runs_when_the_gpu_comes(
    queued, full, service, jp_fetch, jp_ws_fetch, jp_serverapp
):
    """The page opens its socket and sends the cell at once; Jupyter keeps both until the kernel is there."""
    kernel, request = await queued()
    assert request.position == 1
    model = json.loads((await jp_fetch("api", "kernels", kernel.id)).body)
    assert model["execution_state"] == "starting"
    opening = asyncio.ensure_future(jp_ws_fetch("api", "kernels", kernel.id, "channels"))
    end(service, full)
    socket = await asyncio.wait_for(opening, 60)
    socket.write_message(json.dumps(execute(DEVICES)))
    while True:
        told = json.loads(await asyncio.wait_for(socket.read_message(), 60))
        if told["msg_type"] == "stream":
            break
    socket.close()

    assert "GPU-sim-" in told["content"]["text"]


def execute(code):
    header = {
        "msg_id": "m-1",
        "msg_type": "execute_request",
        "session": "s-1",
        "username": "",
        "version": "5.3",
        "date": "",
    }
    content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
    }


@pytest.mark.parametrize("wanted", [{"amount": "1", "grace": 0}])
async def test_who_cancels_the_wait_gets_the_same_kernel_without_a_gpu(
    queued, service, jp_fetch, jp_serverapp
):
    """It stays for good: with no grace, one that is ended as if it had lost a GPU ends while this looks."""
    kernel, request = await queued()
    path = ("kai", "pod-groups", request.namespace, request.name, "cancel")
    await jp_fetch(*path, method="POST", body="{}")
    await jp_serverapp.kernel_manager.get_kernel(kernel.id).ready
    await kernel.connect()

    assert "devices: None" in await kernel.run(DEVICES)
    assert (await kernel.run("print(repr(os.environ['CUDA_VISIBLE_DEVICES']))")).strip() == "''"
    await jp_serverapp.kernel_manager.restart_kernel(kernel.id)
    kernel.close()
    await kernel.connect()
    assert "devices: None" in await kernel.run(DEVICES)
    assert [view.state for view in await leases(service, kernel)] == ["Cancelled"]
    assert jp_serverapp.kernel_manager.get_kernel(kernel.id).provisioner.holding is None
    kernel.close()


async def test_an_offer_taken_on_the_banner_is_what_the_kernel_goes_on_with(
    queued, full, service, jp_fetch, jp_serverapp
):
    kernel, request = await queued()
    smaller = {"kind": "kernel", "gpu": "0.5", "origin": {"kernel_id": kernel.id}}
    await jp_fetch("kai", "pod-groups", method="POST", body=json.dumps(smaller))
    path = ("kai", "pod-groups", request.namespace, request.name, "cancel")
    await jp_fetch(*path, method="POST", body="{}")
    end(service, full)
    await jp_serverapp.kernel_manager.get_kernel(kernel.id).ready
    await kernel.connect()

    assert "GPU-sim-" in await kernel.run(DEVICES)
    held = [v for v in await leases(service, kernel) if v.state == "Running"]
    assert [view.request.text for view in held] == ["0.5 GPU"]
    kernel.close()


async def test_a_kernel_that_is_shut_down_while_it_waits_gives_its_place_back(
    queued, service, jp_fetch, jp_serverapp
):
    kernel, _ = await queued()
    answer = await jp_fetch("api", "kernels", kernel.id, method="DELETE")

    assert answer.code == 204
    assert kernel.id not in jp_serverapp.kernel_manager
    assert [view.state for view in await leases(service, kernel)] == ["Cancelled"]


async def test_a_server_that_stops_does_not_wait_for_the_gpu_and_keeps_the_place(
    queued, service, jp_serverapp
):
    kernel, request = await queued()
    await jp_serverapp.extension_manager.stop_all_extensions()
    await jp_serverapp.kernel_manager.shutdown_all()

    assert [view.name for view in await leases(service, kernel)] == [request.name]
    assert (await leases(service, kernel))[0].state == "Waiting"


@pytest.mark.parametrize("wanted", [{"amount": "1", "max_wait": "1s"}])
async def test_a_wait_that_is_too_long_for_its_person_ends_with_a_sentence(queued, jp_serverapp):
    kernel, _ = await queued()

    with pytest.raises(RuntimeError, match=r"No GPU for this kernel: Not granted within 1 s"):
        await jp_serverapp.kernel_manager.get_kernel(kernel.id).ready


@pytest.mark.parametrize("wanted", [{"amount": "64"}])
async def test_what_can_never_be_is_refused_with_the_service_s_sentence(
    jp_serverapp, jp_fetch, service
):
    manager = jp_serverapp.kernel_manager
    kernel_id = await manager.start_kernel(kernel_name="kai-test")

    with pytest.raises(RuntimeError, match="64") as refused:
        await manager.get_kernel(kernel_id).ready
    lines = str(refused.value).splitlines()
    assert lines[-1].endswith("Ask for less.")
    assert max(map(len, lines)) <= 88  # what JupyterLab's dialog shows of a line
    await jp_fetch("api", "kernels", kernel_id, method="DELETE")
    await manager.shutdown_all()  # does not stumble over what never started


async def test_ten_kernels_at_once_start_one_after_the_other(jp_serverapp, service, full):
    manager = jp_serverapp.kernel_manager
    started = await asyncio.gather(
        *(manager.start_kernel(kernel_name="kai-test") for _ in range(10))
    )
    with service.client() as client:
        await until(lambda: len(client.groups(state="Waiting").items) == 10, "all ten wait")
        end(service, full)
        ready = {kernel_id: manager.get_kernel(kernel_id).ready for kernel_id in started}
        left = set(ready.values())
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for kernel_id in [i for i, future in ready.items() if future in done]:
                assert await manager.get_kernel(kernel_id).is_alive()
                await manager.shutdown_kernel(kernel_id)
        await until(lambda: not live(client), "all leases are given back")


class TestWithoutAServer:
    """nbclient, papermill, a console: a kernel manager alone."""

    @pytest.fixture(autouse=True)
    def nothing_else_runs(self, jp_environ):
        """Only the paths and the service of these tests."""

    async def test_a_kernel_asks_and_gives_back(self, service):
        manager = AsyncKernelManager(kernel_name="kai-test")
        await manager.start_kernel()
        with service.client() as client:
            assert [view.kind for view in live(client)] == ["kernel"]
            await manager.shutdown_kernel(now=True)
            await until(lambda: not live(client), "the lease ends")

    async def test_no_service_is_a_sentence(self, monkeypatch, tmp_path):
        """The magics' own: nothing answers where KAI_SERVICE_URL points."""
        monkeypatch.setenv("KAI_SERVICE_URL", "http://127.0.0.1:9")
        (tmp_path / "token").write_text("t")
        monkeypatch.setenv("KAI_TOKEN_FILE", str(tmp_path / "token"))
        manager = AsyncKernelManager(kernel_name="kai-test")
        with pytest.raises(RuntimeError, match="The queue does not answer"):
            await manager.start_kernel()
        await manager.cleanup_resources()

    async def test_a_service_is_started_where_none_runs(self, monkeypatch, tmp_path):
        from tests.jupyter.conftest import Service

        monkeypatch.setenv("KAI_STATE_DIR", str(tmp_path))
        monkeypatch.setenv("KAI_SIMULATE_GPUS", "2x24GiB")
        manager = AsyncKernelManager(kernel_name="kai-test")
        await manager.start_kernel()
        await manager.shutdown_kernel(now=True)
        Service(tmp_path, None).stop()


@pytest.mark.parametrize("wanted", [{"amount": "2", "preemptible": True, "grace": 1}])
class TestTakenBack:
    async def test_the_kernel_is_ended_once_after_its_grace_and_the_event_says_why(
        self, start, service, jp_serverapp
    ):
        """No restarter brings it back with its variables gone and nobody told."""
        manager = jp_serverapp.kernel_manager
        told = []

        async def hear(logger, schema_id, data):
            told.append(data)

        jp_serverapp.event_logger.add_listener(schema_id=EVENT_SCHEMA, listener=hear)
        kernel = await start("kai-test")
        kernel.close()
        with service.client() as client:
            first = fill(client, priority=120)
            await until(lambda: kernel.id not in manager, "the kernel is ended")
            await until(
                lambda: client.group(first.namespace, first.name).state == "Running",
                "the one who comes first has it",
            )
        (lost,) = await leases(service, kernel)
        assert (lost.state, lost.kind) == ("Evicted", "kernel")
        assert "Variables are gone; files are safe." in lost.headline
        states = [data["state"] for data in told if data["kernel_id"] == kernel.id]
        assert states[-2:] == ["Stopping", "Evicted"]
        actions = [data for data in told if data.get("action") == "restart"]
        assert actions == []

    async def test_one_that_saves_and_ends_in_its_grace_is_not_waited_for(
        self, start, service, jp_serverapp
    ):
        kernel = await start("kai-test")
        kernel.close()
        with service.client() as client:
            fill(client, priority=120)
            await jp_serverapp.kernel_manager.shutdown_kernel(kernel.id)
            await until(lambda: len(live(client)) == 1, "the lease ends")
        (lost,) = await leases(service, kernel)
        assert lost.state in ("Evicted", "Succeeded")


async def test_a_lease_that_its_owner_releases_leaves_the_kernel_alone(
    start, service, jp_serverapp
):
    kernel = await start("kai-test")
    await kernel.run("x = 41")
    (lease,) = await leases(service, kernel)
    end(service, lease)
    with service.client() as client:
        await until(lambda: not live(client), "the lease ends")

    assert "42" in await kernel.run("x + 1")
    kernel.close()


async def test_a_kernel_that_died_by_itself_comes_back_with_its_lease(start, service, jp_serverapp):
    kernel = await start("kai-test")
    kernel.close()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel.id)
    (before,) = await leases(service, kernel)
    first = manager.provisioner.pid
    manager.provisioner.process.kill()
    await until(
        lambda: manager.provisioner.pid != first and manager.ready.done(), "Jupyter restarts it"
    )
    await kernel.connect()

    assert "GPU-sim-" in await kernel.run(DEVICES)
    (after,) = await leases(service, kernel)
    assert (after.name, after.state) == (before.name, "Running")
    kernel.close()


async def test_a_kernel_that_waits_within_a_restart_can_be_shut_down(start, service, jp_serverapp):
    """Its lease was released meanwhile, so the restart asks anew, and somebody else has the GPU."""
    kernel = await start("kai-test")
    kernel.close()
    manager = jp_serverapp.kernel_manager
    (lease,) = await leases(service, kernel)
    end(service, lease)
    with service.client() as client:
        await until(lambda: not live(client), "the lease ends")
        fill(client)
    restarting = asyncio.ensure_future(manager.restart_kernel(kernel.id))
    await waiting(service, kernel)
    await manager.shutdown_kernel(kernel.id)

    with pytest.raises(RuntimeError, match="shut down while it waited"):
        await restarting
    assert kernel.id not in manager
    assert {view.state for view in await leases(service, kernel)} == {"Succeeded", "Cancelled"}


async def test_the_culler_takes_no_waiting_kernel_for_an_idle_one(
    queued, full, service, jp_serverapp
):
    kernel, _ = await queued()
    manager = jp_serverapp.kernel_manager
    manager.cull_idle_timeout = 60
    pending = manager.get_kernel(kernel.id)
    pending.last_activity -= timedelta(hours=2)
    await manager.cull_kernels()
    assert kernel.id in manager
    end(service, full)
    await pending.ready
    await manager.cull_kernels()

    assert kernel.id in manager


class TestTheWorkingFolder:
    @pytest.mark.parametrize("wanted", [{"amount": "1", "folder": "~/there"}])
    async def test_the_kernelspec_names_it(self, start, service, jp_environ):
        there = Path.home() / "there"
        there.mkdir()
        kernel = await start("kai-test")

        assert str(there) in await kernel.run("import os; print(os.getcwd())")
        kernel.close()

    @pytest.mark.parametrize("wanted", [{"amount": "1", "folder": "/no/such"}])
    async def test_one_that_is_missing_is_told_before_anything_is_asked_for(
        self, jp_serverapp, service
    ):
        manager = jp_serverapp.kernel_manager
        kernel_id = await manager.start_kernel(kernel_name="kai-test")
        with pytest.raises(RuntimeError, match="working folder /no/such"):
            await manager.get_kernel(kernel_id).ready
        with service.client() as client:
            assert not live(client)
