"""What runners and their pods may ask: claim, orders, beat, report; payload, result and log lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace as with_changes

from scheduler_service.backends.local.desk import UnknownIncarnation
from scheduler_service.ports import Caller
from scheduler_service.service import access
from scheduler_service.service.core import Core
from scheduler_service.service.keeping import keep_result, payload_missing
from scheduler_service.service.refusals import as_refusal, refusal
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.runner import (
    Beat,
    ClaimAnswer,
    ClaimRequest,
    LogChunk,
    Orders,
    ProofAnswer,
    ProofRequest,
    Report,
)

LONGEST_WAIT_S = 30.0


class RunnerSide(Core):
    """The runners' side of the service's door."""

    async def claim(self, caller: Caller, ask: ClaimRequest) -> ClaimAnswer:
        """Adopt what the runner holds and give it every granted pod of the caller that nobody runs."""
        access.require_request(caller)
        with as_refusal():
            return self.desk.claim(caller.user, ask)

    async def prove(self, caller: Caller, ask: ProofRequest) -> ProofAnswer:
        """Enter what the caller's runner holds into books that were lost; return what can not be."""
        access.require_request(caller)
        with as_refusal():
            return self.recovery.prove(caller.user, ask)

    async def orders(self, caller: Caller, *, runner_name: str, wait_s: float) -> Orders:
        """Return what the runner must do now, waiting up to `wait_s`."""
        access.require_request(caller)
        wait = min(max(0.0, wait_s), LONGEST_WAIT_S)
        return await self.desk.orders(caller.user, runner_name, wait)

    async def beat(self, caller: Caller, beat: Beat) -> None:
        """Note that the runner and its pods live."""
        access.require_request(caller)
        with as_refusal():
            self.desk.beat(caller.user, beat)

    async def report(self, caller: Caller, report: Report) -> None:
        """Book that a pod started or ended."""
        access.require_request(caller)
        try:
            with as_refusal():
                self.desk.report(caller.user, report)
        except UnknownIncarnation as error:
            raise _unknown(report.incarnation) from error

    async def append_logs(self, incarnation: str, chunk: LogChunk) -> None:
        """Keep log lines of an incarnation (its token was checked by the API)."""
        record, _ = self._pod(incarnation)
        self.log_store.append(record.key, incarnation, chunk)

    async def payload_of(self, incarnation: str) -> Path:
        """Return the payload file of an incarnation."""
        record, _ = self._pod(incarnation)
        sha256 = record.ask.work.payload_sha256 if record.ask.work else None
        path = None if sha256 is None else await self.files.payload(record.owner, sha256)
        if path is None:
            raise payload_missing()
        return path

    async def store_result(
        self, incarnation: str, chunks: AsyncIterator[bytes], *, signature: str
    ) -> None:
        """Keep the result of an incarnation, with its owner's signature."""
        self._pod(incarnation)
        limit = self.settings.result_limit_mib
        await keep_result(self.files, incarnation, chunks, most_mib=limit)
        record, rank = self._pod(incarnation)
        pods = tuple(
            with_changes(pod, result_signature=signature) if pod.rank == rank else pod
            for pod in record.pods
        )
        with as_refusal():
            self.records.put(with_changes(record, pods=pods))

    async def incarnation_of_token(self, token: str) -> str | None:
        """Return the incarnation whose live token this is."""
        return self.desk.incarnation_of(token)

    def _pod(self, incarnation: str) -> tuple[GroupRecord, int]:
        found = self.records.find_incarnation(incarnation)
        if found is None:
            raise _unknown(incarnation)
        return found


def _unknown(incarnation: str) -> Exception:
    return refusal(
        "not_found",
        f"No live pod of yours is known as {incarnation}.",
        "End what runs under this name; claim again for new work.",
    )
