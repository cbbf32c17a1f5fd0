"""The runner's side of the fake scheduler: payloads, orders, reports, logs and results."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from scheduler_service.ports import Caller, NotFound, PayloadTooLarge
from scheduler_service.wire import pod_group, runner
from scheduler_service.wire.problem import Problem


def problem(status: int, code: str, title: str, hint: str) -> Problem:
    """Return a refusal."""
    return Problem(
        type=f"urn:kai:problem:{code}", title=title, status=status, detail="", hint=hint, code=code
    )


@dataclass
class Book:
    """What the fake knows of one group."""

    view: pod_group.PodGroupView
    ask: pod_group.Submit
    milli: int
    lines: list[runner.LogLine] = field(default_factory=list)
    result: tuple[Path, str] | None = None
    claimed: bool = False


class FakeDesk:
    """What a fake scheduler says to runners. Its owner has `books`, `payloads`, `beats`, `polled` and ends groups."""

    @cached_property
    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="kai-fake-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder

    async def store_payload(
        self, _caller: Caller, chunks: AsyncIterator[bytes], *, limit: int | None = None
    ) -> pod_group.PayloadStored:
        body = b"".join([chunk async for chunk in chunks])
        if limit is not None and len(body) > limit:
            raise PayloadTooLarge(problem(413, "payload_too_large", "Too large.", "Send less."))
        digest = hashlib.sha256(body).hexdigest()
        self.payloads[digest] = body
        return pod_group.PayloadStored(sha256=digest, size=len(body))

    async def result(
        self, caller: Caller, namespace: str, name: str, *, rank: int
    ) -> tuple[Path, str]:
        book = self._book(caller, namespace, name)
        if book.result is None or rank != 0:
            raise NotFound(problem(404, "no_result", "No result yet.", "Wait for the end."))
        return book.result

    async def claim(self, caller: Caller, _ask: runner.ClaimRequest) -> runner.ClaimAnswer:
        starts = []
        for key, book in self.books.items():
            if key[0] != caller.user or book.claimed or book.view.state != "Starting":
                continue
            book.claimed = True
            starts += [self._order(book, pod) for pod in book.view.pods]
        return runner.ClaimAnswer(starts=tuple(starts))

    async def prove(self, _caller: Caller, ask: runner.ProofRequest) -> runner.ProofAnswer:
        names = (pod.incarnation for pod in ask.pods)
        return runner.ProofAnswer(unknown=tuple(n for n in names if self._key_of(n) is None))

    def _order(self, book: Book, pod: pod_group.PodView) -> runner.StartOrder:
        return runner.StartOrder(
            incarnation=pod.incarnation or "",
            namespace=book.view.namespace,
            group=book.view.name,
            pod=pod.name,
            kind=book.view.kind,
            rank=pod.rank,
            workers=book.view.workers,
            node="this-machine",
            devices=pod.devices,
            fraction_milli=book.milli // book.view.workers,
            share_mib=None,
            cpu_milli=0,
            memory_bytes=0,
            grace_s=book.ask.grace_s,
            token=f"token-of-{pod.incarnation}",
            work=book.ask.work,
            signature=book.ask.signature,
            process=book.ask.process,
        )

    async def orders(self, caller: Caller, *, runner_name: str, wait_s: float) -> runner.Orders:
        self.polled.append(runner_name)

        def granted() -> bool:
            return any(
                key[0] == caller.user and book.view.state == "Starting" and not book.claimed
                for key, book in self.books.items()
            )

        await self._wait(granted, wait_s)
        return runner.Orders(claim=granted())

    async def beat(self, _caller: Caller, beat: runner.Beat) -> None:
        self.beats.append(beat)

    async def report(self, caller: Caller, report: runner.Report) -> None:
        key = self._key_of(report.incarnation)
        if key is None or key[0] != caller.user:
            raise NotFound(problem(404, "not_found", "No such pod.", "Drop it."))
        if report.kind == "ended":
            await self._end(key, "Succeeded" if report.exit_code == 0 else "Failed")
        else:
            await self._set_state(key, "Running")

    async def append_logs(self, incarnation: str, chunk: runner.LogChunk) -> None:
        key = self._key_of(incarnation)
        if key is not None:
            self.books[key].lines += chunk.lines
            await self._publish({key})

    async def payload_of(self, incarnation: str) -> Path:
        key = self._key_of(incarnation)
        work = self.books[key].ask.work if key else None
        body = self.payloads.get((work.payload_sha256 if work else None) or "")
        if body is None:
            raise NotFound(problem(404, "no_payload", "No payload.", "Upload it first."))
        path = self._folder / f"payload-{incarnation}"
        path.write_bytes(body)
        return path

    async def store_result(
        self, incarnation: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        path = self._folder / f"result-{incarnation}"
        path.write_bytes(b"".join([chunk async for chunk in chunks]))
        key = self._key_of(incarnation)
        if key is not None:
            self.books[key].result = (path, signature)

    async def incarnation_of_token(self, token: str) -> str | None:
        incarnation = token.removeprefix("token-of-")
        key = self._key_of(incarnation) if incarnation != token else None
        return incarnation if key is not None else None
