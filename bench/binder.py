"""`python -m bench.binder [--count N] [--workers N] [--json FILE]`: binds a second that `kai binder` itself can make.

The server answers at once, so what is measured is the binder's own capacity: reading its requests, the binding, the
condition, the event and the request's status for each pod. Bindings go first; "settled" is when all is said. A real
API server is slower than this; "per CPU second" is what a machine that does nothing else would show.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

NODE = {
    "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
    "status": {"allocatable": {"cpu": "100000", "memory": "100Ti", "pods": "1000000"}},
}
WATCH = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
MISSING = (404, b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404}')


class Answers:
    """What the server holds, and what it counted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen: Counter[str] = Counter()
        self.bound: set[str] = set()
        self.settled = 0
        self.first = self.last_bind = self.last = self.cpu_at_first = self.cpu_at_bind = 0.0
        self.pid = 0
        self.done = asyncio.Event()
        self._version = 10
        asks = {"requests": {"cpu": "10m", "memory": "64Mi"}}
        self.lists = {
            "/api/v1/nodes": [NODE],
            "/api/v1/pods": [
                {
                    "metadata": self._meta(number, "pod"),
                    "spec": {
                        "schedulerName": "kai-scheduler",
                        "containers": [{"name": "main", "image": "x", "resources": asks}],
                    },
                    "status": {"phase": "Pending"},
                }
                for number in range(count)
            ],
            "/apis/scheduling.run.ai/v1alpha2/bindrequests": [
                self._request(number) for number in range(count)
            ],
            "/api/v1/persistentvolumeclaims": [],
            "/api/v1/namespaces/kai-resource-reservation/pods": [],
            "/apis/resource.k8s.io/v1/resourceclaims": [],
            "/apis/kai.scheduler/v1/configs": [],
        }

    @staticmethod
    def _meta(number: int, kind: str) -> dict[str, str]:
        return {
            "name": f"p-{number}",
            "namespace": "ns",
            "uid": f"{kind}-{number}",
            "resourceVersion": "1",
        }

    def _request(self, number: int) -> dict[str, object]:
        return {
            "metadata": self._meta(number, "request"),
            "spec": {
                "podName": f"p-{number}",
                "podUID": f"pod-{number}",
                "selectedNode": "n",
                "receivedResourceType": "Regular",
            },
        }

    def answer(self, method: str, path: str) -> tuple[int, bytes]:
        """Return status and body, at once."""
        if method == "GET":
            items = self.lists.get(path)
            if items is None:
                return MISSING
            return 200, json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()
        return self._written(method, path)

    def _written(self, method: str, path: str) -> tuple[int, bytes]:
        parts = path.split("/")
        kind = f"{method} {parts[-3] if parts[-1] in {'binding', 'status'} else parts[-1]}"
        kind += f"/{parts[-1]}" if parts[-1] in {"binding", "status"} else ""
        self.seen[kind] += 1
        self.last = time.perf_counter()
        if parts[-1] == "binding":
            if not self.first:
                self.first, self.cpu_at_first = self.last, _cpu_s(self.pid)
            self.bound.add(parts[-2])
            if len(self.bound) == self.count:
                self.last_bind, self.cpu_at_bind = self.last, _cpu_s(self.pid)
        if parts[-3] == "bindrequests" and parts[-1] == "status":
            self.settled += 1
            if self.settled == self.count:
                self.done.set()
            self._version += 1
            body = self._request(int(parts[-2].partition("-")[2]))
            body["metadata"] = {**body["metadata"], "resourceVersion": str(self._version)}  # type: ignore[dict-item]
            body["status"] = {"phase": "Succeeded"}
            return 200, json.dumps(body).encode()
        return 201, b'{"kind":"Status","status":"Success"}'


class Server(asyncio.Protocol):
    """As little HTTP as it takes."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._data += data
        while b"\r\n\r\n" in self._data:
            head, _, rest = self._data.partition(b"\r\n\r\n")
            lines = head.split(b"\r\n")
            length = next(
                (int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0
            )
            if len(rest) < length:
                return
            self._data = rest[length:]
            method, target, _ = lines[0].decode().split(" ")
            self._reply(method, target)

    def _reply(self, method: str, target: str) -> None:
        assert self._transport is not None  # noqa: S101
        path, _, query = target.partition("?")
        if "watch=1" in query:
            self._transport.write(WATCH)
            return
        status, body = self._answers.answer(method, path)
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        self._transport.write(head.encode() + b"\r\n\r\n" + body)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far; what it took to start is left out by asking twice."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kubeconfig(folder: Path, port: int) -> Path:
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(content))
    return file


async def measured(count: int, workers: int) -> dict[str, object]:
    """Return the figures of one run."""
    answers = Answers(count)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Server(answers), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="kai-bench-") as folder:
        config = _kubeconfig(Path(folder), port)
        command = [sys.executable, "-m", "scheduler_service.cli", "binder", "--no-lease"]
        command += ["--kubeconfig", str(config), "--workers", str(workers)]
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
        answers.pid = process.pid
        await answers.done.wait()
        cpu_s = _cpu_s(process.pid) - answers.cpu_at_first
        bind_cpu_s = answers.cpu_at_bind - answers.cpu_at_first
        process.terminate()
        await process.wait()
    server.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, bind_s = answers.last - answers.first, answers.last_bind - answers.first
    return {
        "name": "binder",
        "binds": len(answers.bound),
        "binds_per_s": round(count / bind_s, 1),
        "binds_per_cpu_s": round(count / bind_cpu_s, 1),
        "settled_per_s": round(count / seconds, 1),
        "settled_per_cpu_s": round(count / cpu_s, 1),
        "peak_mb": round(used.ru_maxrss / 1024, 1),
        "writes": dict(answers.seen),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.binder", description=__doc__)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = asyncio.run(measured(options.count, options.workers))
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps([figures], indent=1) + "\n")


if __name__ == "__main__":
    main()
