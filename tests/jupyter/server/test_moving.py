"""`%gpu --move`: a running notebook moves to a GPU kernel with what it holds, having been told what it loses."""

import json
import types

import pytest

from kai_jupyter.errors import UsageError
from kai_jupyter.moving import GpuKernel, gpu_kernel, sentences, variables
from tests.jupyter.conftest import fill
from tests.jupyter.server.conftest import until
from tests.jupyter.server.real import *  # noqa: F403 - fixtures
from tests.jupyter.server.real import Kernel, leases, live

HOLDS = "import os; print(os.environ.get('KAI_POD_GROUP'), os.environ.get('KAI_GPU_DEVICES'))"
GPU = {"display_name": "Python on GPU", "metadata": {"kernel_provisioner": {}}}
GPU["metadata"]["kernel_provisioner"] = {
    "provisioner_name": "kai-provisioner",
    "config": {"amount": "0.25"},
}
SPECS = {"python3": {"display_name": "Python 3", "metadata": {}}, "kai-gpu": GPU, "r-gpu": GPU}


def test_the_usual_kernel_or_the_one_that_was_named():
    usual = GpuKernel(name="kai-gpu", title="Python on GPU", amount="0.25 GPU")
    assert gpu_kernel("", SPECS) == usual
    assert gpu_kernel("r-gpu", SPECS).name == "r-gpu"


def test_a_kernel_without_a_gpu_is_none_to_move_to():
    with pytest.raises(UsageError, match=r"python3 is no kernel with a GPU\. There is: kai-gpu"):
        gpu_kernel("python3", SPECS)
    with pytest.raises(UsageError, match="jupyter kai doctor"):
        gpu_kernel("", {"python3": SPECS["python3"]})


def test_what_is_lost_is_named():
    namespace = {"x": 1, "df": 2, "_": 3, "os": types, "In": []}
    assert variables(namespace, {"In": []}) == ["df", "x"]
    kernel = gpu_kernel("", SPECS)
    lost, kept, then = sentences(["a", "b", "c", "d", "e", "f"], kernel, None)
    assert lost == "Lost: 6 variables (a, b, c, d, e and 1 more)."
    assert kept == "Kept: the cells, their outputs and all files."
    assert then == "It asks for 0.25 GPU and waits its turn if there is none."
    assert sentences([], kernel, None)[0] == "No variable is lost."


@pytest.fixture(autouse=True)
def kernelspec(jp_data_dir):
    folder = jp_data_dir / "kernels" / "kai-test"
    folder.mkdir(parents=True)
    spec = {**GPU, "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    (folder / "kernel.json").write_text(json.dumps({**spec, "language": "python"}))


@pytest.fixture
def notebook(jp_fetch, jp_root_dir, jp_serverapp):
    """Start a notebook's session with a plain kernel."""

    async def notebook():
        ask = {"path": "train.ipynb", "name": "train.ipynb", "type": "notebook"}
        made = await jp_fetch(
            "api", "sessions", method="POST", body=json.dumps(ask | {"kernel": {"name": "python3"}})
        )
        session = json.loads(made.body)
        kernel = Kernel(jp_serverapp.kernel_manager, session["kernel"]["id"])
        await jp_serverapp.kernel_manager.get_kernel(kernel.id).ready
        await kernel.connect()
        return session["id"], kernel

    return notebook


@pytest.fixture
def move(jp_fetch, jp_serverapp):
    """Move a session as the page does."""

    async def move(session, kernel):
        body = json.dumps({"kernel_name": "kai-test"})
        made = await jp_fetch("kai", "kernels", kernel.id, "move", method="POST", body=body)
        new_id = json.loads(made.body)["kernel_id"]
        change = json.dumps({"kernel": {"id": new_id}})
        await jp_fetch("api", "sessions", session, method="PATCH", body=change)
        kernel.close()
        return Kernel(jp_serverapp.kernel_manager, new_id)

    return move


@pytest.mark.process
async def test_a_notebook_takes_its_lease_with_it(notebook, move, service, jp_serverapp, kai):
    session, kernel = await notebook()
    await kernel.run("%load_ext kai_jupyter\nx = 1\n%gpu 0.5 --wait")
    (before,) = await leases(service, kernel)
    told = await kernel.run("%gpu --move kai-test")
    assert "Lost: 1 variable (x)." in told
    assert "0.5 GPU that it holds" in told
    moved = await move(session, kernel)
    await until(lambda: kernel.id not in jp_serverapp.kernel_manager, "the old kernel ends")
    await jp_serverapp.kernel_manager.get_kernel(moved.id).ready
    await moved.connect()

    name, devices = (await moved.run(HOLDS)).split()
    assert name == before.name
    assert "GPU-sim-" in devices
    with service.client() as client:
        (lease,) = live(client)
    assert (lease.name, lease.state, lease.kind) == (before.name, "Running", "kernel")
    moved.close()


@pytest.mark.process
async def test_a_notebook_takes_its_place_in_the_queue_with_it(
    notebook, move, service, jp_serverapp, kai
):
    session, kernel = await notebook()
    with service.client() as client:
        holds = fill(client)
        await kernel.run("%load_ext kai_jupyter\nh = %gpu 0.5")
        (before,) = await leases(service, kernel)
        assert "the place in the queue for 0.5 GPU" in await kernel.run("%gpu --move kai-test")
        moved = await move(session, kernel)
        assert client.group(before.namespace, before.name).position == 1
        client.cancel(holds.namespace, holds.name, grace_s=0)
        await jp_serverapp.kernel_manager.get_kernel(moved.id).ready
        await moved.connect()
        assert (await moved.run(HOLDS)).split()[0] == before.name
        moved.close()


@pytest.mark.process
async def test_a_notebook_that_holds_nothing_asks_for_what_the_kernel_says(
    notebook, move, service, jp_serverapp, kai
):
    session, kernel = await notebook()
    await kernel.run("%load_ext kai_jupyter")
    assert "It asks for 0.25 GPU" in await kernel.run("%gpu --move kai-test")
    moved = await move(session, kernel)
    await jp_serverapp.kernel_manager.get_kernel(moved.id).ready

    (lease,) = await leases(service, moved)
    assert lease.request.text == "0.25 GPU"


@pytest.mark.process
async def test_what_is_no_kernel_here_is_told(jp_fetch, notebook, kai):
    _, kernel = await notebook()
    for kernel_id, body in ((kernel.id, {"kernel_name": "nothing"}), ("no-such", {})):
        with pytest.raises(Exception, match=r"HTTP 40[04]"):
            await jp_fetch(
                "kai", "kernels", kernel_id, "move", method="POST", body=json.dumps(body)
            )
    kernel.close()
