"""The service as a runner sees it: keeps the runner's part of the HTTP contract over a real socket, in memory.

Grants what a test gives it, repeats stop orders until an end is reported, takes each report and log line once.
Tests call pods `a` or `g-0`; on the wire each name gets an ending of its own, since a runner kills by incarnation what
a dead supervisor left, and pods of another test that runs at the same time must not answer to the same one.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from scheduler_service.wire import codec, runner

T = TypeVar("T")
FAIL_SAFE_S = 90
LONG_POLL_S = 1.0
_POD = re.compile(r"/api/v1/runner/pods/([^/]+)/(payload|result|logs)")


class FakeRunnerService:
    """A granted, a running, an ended book, and what runners sent."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.ending = f"-{uuid.uuid4().hex}"
        self.orders: dict[str, runner.StartOrder] = {}
        self.claimed_by: dict[str, str] = {}
        self.started: dict[str, runner.Report] = {}
        self.ended: dict[str, runner.Report] = {}
        self.stops: dict[str, runner.StopOrder] = {}
        self.lines: dict[str, dict[int, runner.LogLine]] = defaultdict(dict)
        self.dropped: dict[str, int] = defaultdict(int)
        self.payloads: dict[str, bytes] = {}
        self.results: dict[str, tuple[bytes, str]] = {}
        self.beats: dict[str, runner.PodBeat] = {}
        self.claims: list[runner.ClaimRequest] = []
        self.proofs: list[runner.ProofRequest] = []
        self.sends_away = False
        self._changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None

    # -- for tests --
    def open(self, port: int = 0) -> int:
        """Serve, and return the port."""
        handler = type("Handler", (_Handler,), {"service": self})
        self._server = _Server(("127.0.0.1", port), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self._server.server_address[1]

    def close(self) -> None:
        """Stop serving; the books stay."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def grant(self, *orders: runner.StartOrder) -> None:
        """Let a runner claim these, as one group."""
        with self._changed:
            self.orders |= {order.incarnation: order for order in orders}
            self._changed.notify_all()

    def stop(self, incarnation: str, *, grace_s: int = 15, reason: str = "cancelled") -> None:
        """Order an end."""
        with self._changed:
            self.stops[incarnation] = runner.StopOrder(
                incarnation=incarnation, grace_s=grace_s, reason=reason
            )
            self._changed.notify_all()

    def wait_for(self, what: str, ask: Callable[[], T]) -> T:
        """Return the first true answer of `ask`, asked at each change."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(ask()), FAIL_SAFE_S):
                raise AssertionError(f"never seen: {what}; ended: {self.ended}")
            return ask()

    def wait_ended(self, incarnation: str) -> runner.Report:
        """Return the report of a pod's end."""
        return self.wait_for(f"end of {incarnation}", lambda: self.ended.get(incarnation))

    def wait_line(self, incarnation: str, text: str) -> runner.LogLine:
        """Return the first line of a pod that has `text` in it."""
        return self.wait_for(
            f"line {text!r} of {incarnation}", lambda: self._line(incarnation, text)
        )

    def text_of(self, incarnation: str, stream: str | None = None) -> list[str]:
        """Return the lines of a pod, in order."""
        lines = sorted(self.lines[incarnation].items())
        return [line.text for _, line in lines if stream in (None, line.stream)]

    def _line(self, incarnation: str, text: str) -> runner.LogLine | None:
        lines = self.lines[incarnation].values()
        return next((line for line in lines if text in line.text), None)

    def on_wire(self, value: Any) -> Any:
        """Return what is sent, with the names of pods as runners know them."""
        if isinstance(value, (list, tuple)):
            return [self.on_wire(item) for item in value]
        if not isinstance(value, dict):
            return value
        sent = {key: self.on_wire(item) for key, item in value.items()}
        if "incarnation" in sent:
            sent["incarnation"] += self.ending
        for key in ("unknown", "lost"):
            if key in sent:
                sent[key] = [name + self.ending for name in sent[key]]
        return sent

    # -- the contract --
    def claim(self, ask: runner.ClaimRequest) -> runner.ClaimAnswer:
        held = {pod.incarnation for pod in ask.held}
        with self._changed:
            self.claims.append(ask)
            given = [
                order
                for name, order in self.orders.items()
                if name not in self.started
                and name not in self.ended
                and name not in held
                and self.claimed_by.setdefault(name, ask.runner) == ask.runner
            ]
            self._changed.notify_all()
        unknown = tuple(sorted(n for n in held if n not in self.orders or n in self.ended))
        return runner.ClaimAnswer(starts=tuple(given), unknown=unknown)

    def prove(self, ask: runner.ProofRequest) -> runner.ProofAnswer | None:
        with self._changed:
            self.proofs.append(ask)
            answer = self.prove_answer(ask)
            self._changed.notify_all()
        return answer

    def prove_answer(self, ask: runner.ProofRequest) -> runner.ProofAnswer | None:
        """Know what was ordered and has not ended; tests may know better. None: an older service."""
        names = [pod.incarnation for pod in ask.pods]
        unknown = tuple(n for n in names if n not in self.orders or n in self.ended)
        return runner.ProofAnswer(
            unknown=unknown, lost=tuple(n for n in unknown if n not in self.orders)
        )

    def next_orders(self) -> runner.Orders:
        def now() -> runner.Orders:
            stops = (s for name, s in self.stops.items() if name not in self.ended)
            has_new = any(n not in self.claimed_by for n in self.orders)
            return runner.Orders(claim=has_new, stops=tuple(stops), exit=self.sends_away)

        with self._changed:
            self._changed.wait_for(lambda: now() != runner.Orders(), LONG_POLL_S)
            return now()

    def report(self, report: runner.Report) -> bool:
        with self._changed:
            if report.incarnation not in self.orders:
                return False
            book = self.started if report.kind == "started" else self.ended
            book.setdefault(report.incarnation, report)
            self._changed.notify_all()
        return True

    def beat(self, beat: runner.Beat) -> None:
        with self._changed:
            self.beats |= {pod.incarnation: pod for pod in beat.pods}
            self._changed.notify_all()

    def add_lines(self, incarnation: str, chunk: runner.LogChunk) -> None:
        with self._changed:
            for line in chunk.lines:
                self.lines[incarnation].setdefault(line.seq, line)
            self.dropped[incarnation] += chunk.dropped
            self._changed.notify_all()

    def put_result(self, incarnation: str, body: bytes, signature: str) -> None:
        with self._changed:
            self.results[incarnation] = (body, signature)
            self._changed.notify_all()

    def is_pods(self, incarnation: str, token: str) -> bool:
        order = self.orders.get(incarnation)
        return order is not None and order.token == token and incarnation not in self.ended


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a runner that was killed while it was answered."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    service: FakeRunnerService
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        pod = self._pod()
        if pod:
            self._pods_own(pod[1], lambda: self._bytes(self.service.payloads[pod[1]]))
        elif self._is_persons() and self.path.startswith("/api/v1/runner/orders?"):
            self._json(codec.encode(self.service.next_orders()))

    def do_PUT(self) -> None:
        pod = self._pod()
        assert pod, self.path
        body = self._body()
        signature = self.headers["X-Kai-Signature"]
        self._pods_own(pod[1], lambda: self._json(self.service.put_result(pod[1], body, signature)))

    def do_POST(self) -> None:
        pod = self._pod()
        body = json.loads(self._body().replace(self.service.ending.encode(), b""))
        if pod:
            chunk = codec.decode(runner.LogChunk, body)
            self._pods_own(pod[1], lambda: self._json(self.service.add_lines(pod[1], chunk)))
        elif self._is_persons():
            self._persons_own(body)

    def _persons_own(self, body: Any) -> None:
        if self.path == "/api/v1/runner/claim":
            answer = self.service.claim(codec.decode(runner.ClaimRequest, body))
            self._json(codec.encode(answer))
        elif self.path == "/api/v1/runner/prove":
            answer = self.service.prove(codec.decode(runner.ProofRequest, body))
            self._json(
                codec.encode(answer) if answer else {"detail": "No."}, 200 if answer else 404
            )
        elif self.path == "/api/v1/runner/beat":
            self._json(self.service.beat(codec.decode(runner.Beat, body)))
        elif self.service.report(codec.decode(runner.Report, body)):
            self._json(None)
        else:
            self._json({"detail": "No such pod."}, 404)

    def _pod(self) -> re.Match[str] | None:
        return _POD.fullmatch(self.path.replace(self.service.ending, ""))

    def _is_persons(self) -> bool:
        is_known = self.headers["Authorization"] == f"Bearer {self.service.token}"
        if not is_known:
            self._json({"detail": "Not you."}, 401)
        return is_known

    def _pods_own(self, incarnation: str, answer: Callable[[], None]) -> None:
        token = self.headers["Authorization"].removeprefix("Bearer ")
        if self.service.is_pods(incarnation, token):
            answer()
        else:
            self._json({"detail": "No such pod."}, 404)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> Iterable[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _json(self, value: object, status: int = 200) -> None:
        self._bytes(json.dumps(self.service.on_wire(value)).encode(), status)

    def _bytes(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""
