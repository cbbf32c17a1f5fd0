"""Real kernels of a real server: leases that follow restarts, cards while the kernel is busy."""

import asyncio
import json
import os

import pytest

from kai_jupyter.widgets.card import is_built
from tests.jupyter.conftest import fill
from tests.jupyter.server.conftest import until
from tests.jupyter.server.real import *  # noqa: F403 - fixtures
from tests.jupyter.server.real import leases, live

pytestmark = pytest.mark.process


async def test_a_share_for_a_notebook(start, service, jp_serverapp):
    kernel = await start()
    told = await kernel.run("%load_ext kai_jupyter\n%gpu 0.5 --wait")
    devices = await kernel.run("import os; print(os.environ['KAI_GPU_DEVICES'])")

    assert "0.5 GPU" in told
    assert "GPU-sim-" in devices
    (lease,) = await leases(service, kernel)
    assert lease.state == "Running"
    kernel.close()


async def test_the_lease_follows_a_restart_of_its_kernel(start, service, jp_serverapp, kai):
    kernel = await start()
    await kernel.run("%load_ext kai_jupyter\n%gpu 0.5 --wait")
    (before,) = await leases(service, kernel)
    await until(lambda: kai.kernels._pids, "the server looks after the lease")
    await jp_serverapp.kernel_manager.restart_kernel(kernel.id)
    kernel.close()
    await kernel.connect()
    told = await kernel.run("%load_ext kai_jupyter\n%gpu")
    devices = await kernel.run("import os; print(os.environ.get('KAI_GPU_DEVICES'))")

    (after,) = await leases(service, kernel)
    assert (after.name, after.state) == (before.name, "Running")
    assert "0.5 GPU" in told
    assert "GPU-sim-" in devices
    kernel.close()


async def test_a_kernel_that_is_shut_down_gives_its_share_back(start, service, jp_serverapp, kai):
    kernel = await start()
    await kernel.run("%load_ext kai_jupyter\n%gpu 0.25 --wait")
    kernel.close()
    await until(lambda: kai.kernels._pids, "the server looks after the lease")
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel.id)

    with service.client() as client:
        await until(lambda: not live(client), "the lease ends")


async def test_a_busy_kernel_hears_what_the_page_did(start, service, jp_fetch, jp_serverapp):
    """The kernel is blocked in a cell that waits; the page cancels over HTTP, and the cell ends."""
    kernel = await start()
    with service.client() as client:
        other = fill(client)
        await kernel.run("%load_ext kai_jupyter\nh = %gpu 1")
        (waiting,) = await leases(service, kernel)
        assert waiting.state == "Waiting"

        busy = asyncio.ensure_future(kernel.run("h.wait()"))
        path = ("kai", "pod-groups", waiting.namespace, waiting.name, "cancel")
        await jp_fetch(*path, method="POST", body="{}")
        told = await busy
        client.cancel(other.namespace, other.name, grace_s=0)

    assert "ancelled" in told
    assert "Traceback" not in told
    kernel.close()


async def test_a_request_made_in_the_page_gives_its_devices_to_the_kernel(
    start, service, jp_fetch, jp_serverapp
):
    """The chip in the toolbar asks; the kernel, which uses the extension, has the devices at the next look."""
    kernel = await start()
    await kernel.run("%load_ext kai_jupyter")
    ask = {"kind": "lease", "gpu": "0.25", "origin": {"kernel_id": kernel.id}}
    made = await jp_fetch("kai", "pod-groups", method="POST", body=json.dumps(ask))
    assert made.code == 201

    await kernel.run(
        "from kai_jupyter.session import current; current(get_ipython()).resume().wait(60)"
    )
    assert "GPU-sim-" in await kernel.run("import os; print(os.environ['KAI_GPU_DEVICES'])")
    kernel.close()


async def test_cards_are_widgets_with_text_beside(start, service, jp_serverapp):
    kernel = await start()
    await kernel.run("%load_ext kai_jupyter")
    told = await kernel.run("h = %gpu 0.25 --wait\nprint(sorted(h._repr_mimebundle_()))")

    assert "text/plain" in told
    if is_built():
        assert "application/vnd.jupyter.widget-view+json" in told
    kernel.close()


async def test_rank_0_prints_under_the_cell_that_started_it(start, service, jp_serverapp, tmp_path):
    """The cell has long ended and others were run when the worker speaks."""
    gate = tmp_path / "gate"
    kernel = await start()
    await kernel.run(f"%load_ext kai_jupyter\ngate = {str(gate)!r}")
    cell = (
        "%%gang -n 2 --name inline\nimport os, time\n"
        "while not os.path.exists(gate):\n    time.sleep(0.05)\nprint('from a worker')"
    )
    reply = await kernel.client.execute_interactive(cell, output_hook=lambda _: None, timeout=60)
    await kernel.run("1 + 1")
    gate.touch()
    while True:
        told = await kernel.client.get_iopub_msg(timeout=60)
        if told["msg_type"] == "stream" and "from a worker" in told["content"]["text"]:
            break

    assert told["parent_header"]["msg_id"] == reply["parent_header"]["msg_id"]
    kernel.close()


async def test_pending_kernels_are_switched_on(jp_serverapp):
    assert jp_serverapp.kernel_manager.use_pending_kernels


async def test_kernels_speak_encrypted(start, jp_serverapp):
    kernel = await start()

    assert jp_serverapp.kernel_manager.get_kernel(kernel.id).get_connection_info()[
        "curve_publickey"
    ]
    kernel.close()


async def test_stopping_the_server_leaves_the_service_alone(jp_serverapp, service, kai):
    await until(lambda: kai.relay.is_connected, "the stream is there")
    await jp_serverapp.extension_manager.stop_all_extensions()

    with service.client() as client:
        assert client.health().ok
    assert os.environ["KAI_STATE_DIR"] == str(service.state)
