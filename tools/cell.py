"""Run cells in a kernel of a running Jupyter server, as a page would."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tools.progress import StepError

PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Server:
    """A Jupyter server that answers at `url`, with its token."""

    url: str
    token: str

    def get(self, path: str) -> str:
        """Return the body of a GET.

        Raises:
            StepError: when the answer is anything but a success.
        """
        return self._send("GET", path)

    def post(self, path: str, body: object) -> str:
        """Return the body of a POST of `body` as JSON; fails like `get`."""
        return self._send("POST", path, json=body)

    def delete(self, path: str) -> None:
        """Send a DELETE; fails like `get`."""
        self._send("DELETE", path)

    def _send(self, method: str, path: str, *, json: object = None) -> str:
        headers = {"Authorization": f"token {self.token}"}
        url = self.url + path
        try:
            answer = httpx.request(method, url, headers=headers, timeout=PATIENCE_S, json=json)
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            raise StepError(f"{method} {path}: {error}\n{error.response.text}") from error
        except httpx.HTTPError as error:
            raise StepError(f"{method} {path}: {error!r}") from error
        return answer.text


@dataclass(slots=True)
class Outputs:
    """What a cell gave: its printed and displayed text, and its error if it ended in one."""

    texts: list[str] = field(default_factory=list)
    error: str | None = None

    def text(self) -> str:
        """Return everything that can be read below the cell."""
        return "\n".join(self.texts)

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Take in one message of the kernel."""
        if kind == "stream":
            self.texts.append(str(content["text"]))
        elif kind in {"display_data", "execute_result", "update_display_data"}:
            self.texts.append(str(content["data"].get("text/plain", "")))
        elif kind == "error":
            self.error = f"{content['ename']}: {content['evalue']}"


def run_cell(server: Server, kernel_id: str, code: str) -> Outputs:
    """Return what `code` gave once the kernel is idle again.

    Raises:
        StepError: when the kernel does not finish it in time.
    """
    try:
        return asyncio.run(asyncio.wait_for(_run(server, kernel_id, code), PATIENCE_S))
    except TimeoutError as error:
        raise StepError(
            f"the kernel did not finish this cell in {PATIENCE_S} s:\n{code}"
        ) from error


async def _run(server: Server, kernel_id: str, code: str) -> Outputs:
    query = urlencode({"token": server.token, "session_id": uuid.uuid4().hex})
    address = server.url.replace("http", "ws", 1)
    socket = await websocket_connect(f"{address}api/kernels/{kernel_id}/channels?{query}")
    try:
        request = _execute_request(code)
        await socket.write_message(json.dumps(request))
        return await _outputs(socket, request["header"]["msg_id"])
    finally:
        await _close(socket)


async def _close(socket: WebSocketClientConnection) -> None:
    """Close the socket and wait until it is."""
    socket.close()
    while await socket.read_message() is not None:
        pass


async def _outputs(socket: WebSocketClientConnection, request_id: str) -> Outputs:
    """Collect the answers to one request until the kernel says that it is idle."""
    outputs = Outputs()
    while True:
        message = await socket.read_message()
        if message is None:
            raise StepError("the Jupyter server closed the kernel's socket in the middle of a cell")
        answer = json.loads(message)
        if answer["parent_header"].get("msg_id") != request_id:
            continue
        kind, content = answer["header"]["msg_type"], answer["content"]
        outputs.add(kind, content)
        if kind == "status" and content["execution_state"] == "idle":
            return outputs


def _execute_request(code: str) -> dict[str, Any]:
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": "execute_request",
        "session": uuid.uuid4().hex,
        "username": "",
        "version": "5.3",
    }
    content = {"code": code, "silent": False, "store_history": True, "stop_on_error": True}
    return {
        "channel": "shell",
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content | {"user_expressions": {}, "allow_stdin": False},
    }
