"""A service of the module, and real kernels of the server, spoken to as a notebook does. Import all of it."""

import pytest

from tests.jupyter.conftest import eventually, start_service

__all__ = ["Kernel", "jp_environ", "leases", "live", "nothing_is_left", "service", "start"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = start_service(tmp_path_factory.mktemp("service"))
    yield running
    running.stop()


@pytest.fixture
def jp_environ(jp_environ, service, monkeypatch):
    """Let server and kernels find the service of this module."""
    for name, value in service.environ.items():
        monkeypatch.setenv(name, value)
    return jp_environ


@pytest.fixture(autouse=True)
def nothing_is_left(service):
    """End what a test asked for, so that the next one finds both GPUs free."""
    yield
    with service.client() as client:
        for view in live(client):
            client.cancel(view.namespace, view.name, grace_s=0)
        eventually(lambda: not live(client), "all requests have ended")


def live(client):
    return [view for view in client.groups(mine=True).items if not view.ended_at]


class Kernel:
    """A kernel of the server, spoken to as a notebook does."""

    def __init__(self, manager, kernel_id):
        self.manager = manager
        self.id = kernel_id

    async def connect(self):
        self.client = self.manager.get_kernel(self.id).client()
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=60)

    async def run(self, code):
        """Run a cell; return what it printed and displayed as text."""
        texts = []

        def hear(told):
            content = told["content"]
            if told["msg_type"] == "stream":
                texts.append(content["text"])
            elif told["msg_type"] in ("display_data", "execute_result"):
                texts.append(content["data"]["text/plain"])
            elif told["msg_type"] == "error":
                texts.append("\n".join(content["traceback"]) or content["evalue"])

        await self.client.execute_interactive(code, output_hook=hear, timeout=60)
        return "\n".join(texts)

    def close(self):
        self.client.stop_channels()


@pytest.fixture
def start(jp_serverapp):
    """Start kernels of the server, which ends them."""
    manager = jp_serverapp.kernel_manager

    async def start(name=None):
        kernel = Kernel(manager, await manager.start_kernel(kernel_name=name))
        await manager.get_kernel(kernel.id).ready
        await kernel.connect()
        return kernel

    return start


async def leases(service, kernel):
    with service.client() as client:
        return [v for v in client.groups(mine=True).items if v.origin.kernel_id == kernel.id]
