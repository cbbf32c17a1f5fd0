"""A Jupyter server with the extension, as `jupyter lab` runs it: under an odd base URL, its start hooks run."""

import asyncio
import json

import pytest


@pytest.fixture
def extension_config():
    """Override to configure the extension or its server."""
    return {}


@pytest.fixture
def jp_server_config(extension_config):
    base = {
        "ServerApp": {
            "jpserver_extensions": {"kai_jupyter": True},
            "allow_unauthenticated_access": False,
        },
        "KaiExtensionApp": {
            "keep_kernels_s": 0
        },  # this process is the server: nothing may outlive it
    }
    for name, values in extension_config.items():
        base.setdefault(name, {}).update(values)
    return base


@pytest.fixture
def jp_serverapp(jp_serverapp, jp_asyncio_loop):
    """Run the start hooks, which pytest-jupyter does not."""
    jp_asyncio_loop.run_until_complete(jp_serverapp.extension_manager.start_all_extensions())
    yield jp_serverapp
    jp_asyncio_loop.run_until_complete(jp_serverapp.extension_manager.stop_all_extensions())


@pytest.fixture
def kai(jp_serverapp):
    """The extension."""
    return jp_serverapp.web_app.settings["kai_extension"]


async def until(is_true, what):
    """Wait for an observed state; fail only after a generous time."""
    for _ in range(3000):
        if is_true():
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"waited in vain: {what}")


async def message(socket, kind):
    """Return the next message of this kind."""
    while True:
        told = json.loads(await asyncio.wait_for(socket.read_message(), 60))
        if told["kind"] == kind:
            return told
