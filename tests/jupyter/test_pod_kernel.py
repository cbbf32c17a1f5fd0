"""The host of a kernel in its pod, and what the Jupyter server knows of it: real kernels, each with its own address."""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time

import pytest
import zmq
import zmq.asyncio
from jupyter_client.asynchronous import AsyncKernelClient

from kai_jupyter.pod_kernel import protocol
from kai_jupyter.pod_kernel.process import PodProcess
from kai_jupyter.pod_kernel.protocol import Keys

FAIL_SAFE_S = 90
KERNEL = ("python", "-m", "ipykernel_launcher", "-f", "{connection_file}")
_numbers = itertools.count(2)


class Pod:
    """A process on an address of its own, as a pod has one."""

    def __init__(self, folder, *, keep_s=60.0, command=KERNEL):
        pid = os.getpid()
        self.address = f"127.{100 + pid % 100}.{pid // 100 % 250}.{next(_numbers)}"
        self.keys = Keys.mint(b"0123456789abcdef")
        self.file = folder / f"{self.address}.json"
        self.file.write_bytes(
            protocol.connection_file(self.keys, ip=self.address, kernel_name="kai-gpu")
        )
        self.log = folder / f"{self.address}.log"
        with self.log.open("wb") as out:
            self.host = subprocess.Popen(
                [
                    *(sys.executable, "-m", "kai_jupyter.pod_kernel", str(self.file)),
                    *("--address", self.address, "--keep-s", str(keep_s), "--", *command),
                ],
                stdout=out,
                stderr=out,
            )
        self.process = PodProcess(self.address, self.keys)

    def client(self):
        client = AsyncKernelClient()
        client.load_connection_file(str(self.file))
        client.start_channels()
        return client

    def end(self):
        self.process.close()
        self.host.terminate()
        self.host.wait(FAIL_SAFE_S)


@pytest.fixture
def pod(tmp_path):
    found = Pod(tmp_path)
    yield found
    found.end()


async def run(client, code, said=None):
    """Run a cell; return what it printed. `said` is set with its first line."""
    texts = []

    def hear(told):
        if told["msg_type"] == "stream":
            texts.append(told["content"]["text"])
            if said is not None:
                said.set()
        elif told["msg_type"] == "error":
            texts.append(told["content"]["ename"])

    await client.execute_interactive(code, output_hook=hear, timeout=FAIL_SAFE_S)
    return "".join(texts).strip()


async def until(is_met, what):
    end = time.monotonic() + FAIL_SAFE_S
    while not is_met():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.02)


async def test_cells_run_over_an_encrypted_wire_and_an_interrupt_is_a_message(pod):
    await pod.process.attach()
    assert pod.process.poll() is None
    assert pod.file.stat().st_mode & 0o077 == 0, "nobody else reads the keys"
    client = pod.client()
    await client.wait_for_ready(timeout=FAIL_SAFE_S)
    assert await run(client, "x = 20; print(x + 1)") == "21"
    told = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
    up = asyncio.Event()
    running = asyncio.ensure_future(run(client, told, up))
    await asyncio.wait_for(up.wait(), FAIL_SAFE_S)
    client.control_channel.send(client.session.msg("interrupt_request", content={}))
    assert (await running).split() == ["up", "KeyboardInterrupt"]
    assert await run(client, "print(x)") == "20", "its variables are still there"
    client.stop_channels()


async def test_a_restart_is_another_process_in_the_same_pod(pod):
    await pod.process.attach()
    client = pod.client()
    await client.wait_for_ready(timeout=FAIL_SAFE_S)
    before = await run(client, "import os; y = 1; print(os.getpid())")
    client.shutdown(restart=True)
    await until(lambda: pod.process.poll() is not None, "the kernel ends")
    assert pod.process.wait() == 0
    client.stop_channels()
    await pod.process.start()
    assert pod.process.poll() is None
    client = pod.client()
    await client.wait_for_ready(timeout=FAIL_SAFE_S)
    after = await run(client, "print(os.getpid() if 'os' in dir() else __import__('os').getpid())")
    assert after != before
    assert await run(client, "print(y)") == "NameError"
    client.stop_channels()


async def test_a_kernel_that_died_is_told_and_not_started_by_itself(pod):
    await pod.process.attach()
    pod.process.kill()
    await until(lambda: pod.process.poll() is not None, "the end is told")
    assert pod.process.poll() == -signal.SIGKILL
    await pod.process.start()
    assert pod.process.generation == 2, "its variables are gone: a person has to be told first"


async def test_another_server_takes_the_kernel_up_with_its_keys(pod):
    await pod.process.attach()
    client = pod.client()
    await client.wait_for_ready(timeout=FAIL_SAFE_S)
    await run(client, "z = 7")
    pod.process.close()
    later = PodProcess(pod.address, protocol.keys_of(pod.file.read_bytes()))
    await later.attach()
    assert later.poll() is None
    assert await run(client, "print(z)") == "7"
    later.close()
    client.stop_channels()


async def test_nobody_without_the_keys_ends_the_kernel(pod):
    await pod.process.attach()
    context = zmq.asyncio.Context.instance()
    plain, curious = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    curious.curve_publickey, curious.curve_secretkey = zmq.curve_keypair()
    curious.curve_serverkey = pod.keys.public
    stranger = protocol.session(Keys.mint(b"another key"))
    try:
        for socket in (
            plain,
            curious,
        ):  # without encryption; with it, but not signed with the kernel's key
            socket.connect(f"tcp://{pod.address}:{protocol.HOST_PORT}")
            await socket.send_multipart(protocol.message(stranger, protocol.SIGNAL, number=9))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(socket.recv_multipart(), 1.0)
    finally:
        plain.close(linger=0)
        curious.close(linger=0)
    assert pod.process.poll() is None


async def test_a_message_that_was_heard_once_is_not_heard_again(pod):
    """What somebody recorded on the wire is worth nothing, should they ever get through the encryption."""
    own = protocol.session(pod.keys)
    parts = protocol.message(own, protocol.STATUS)
    other = protocol.session(pod.keys)
    assert protocol.read(other, list(parts)) == (protocol.STATUS, {})
    assert protocol.read(other, list(parts)) is None


async def test_the_gpu_comes_back_where_no_server_asks_for_the_kernel(tmp_path):
    pod = Pod(tmp_path, keep_s=2.0)
    try:
        await pod.process.attach()
        pod.process.close()
        await until(lambda: pod.host.poll() is not None, "the pod ends")
        assert pod.host.returncode == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            pod.end()


async def test_a_pod_told_to_end_lets_its_kernel_end(tmp_path):
    marker = tmp_path / "said"
    script = (
        "import signal, socket, sys, time\n"
        f"def bye(*_): open({str(marker)!r}, 'w').write('bye'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "import json; address = json.load(open(sys.argv[1]))['ip']\n"
        f"s = socket.create_server((address, {protocol.PORTS['hb_port']}))\n"
        "time.sleep(1000)\n"
    )
    pod = Pod(tmp_path, command=("python", "-c", script, "{connection_file}"))
    try:
        await pod.process.attach()
    finally:
        pod.end()
    assert marker.read_text() == "bye"


async def test_a_command_that_is_not_there_is_an_end_with_a_line_in_the_log(tmp_path):
    pod = Pod(tmp_path, command=("/no/such/kernel",))
    try:
        await pod.process.attach()
        assert pod.process.poll() == 1
        assert "could not be started" in pod.log.read_text()
    finally:
        pod.end()


async def test_a_pod_that_is_gone_is_an_end(tmp_path):
    process = PodProcess("127.99.0.1", Keys.mint(b"key"))
    attaching = asyncio.ensure_future(process.attach())
    await asyncio.sleep(0.1)
    assert process.poll() is None, "no answer is no end"
    process.lost()
    with pytest.raises(ConnectionError):
        await attaching
    assert process.poll() == 1
    process.close()
