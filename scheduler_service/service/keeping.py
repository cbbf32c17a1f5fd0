"""Payloads and results on their way into the files, with the sentences of what is too much. Shared by both doors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from scheduler_service.ports import RefusedRequest
from scheduler_service.service.refusals import as_refusal, refusal
from scheduler_service.store.files import FileStore, TooLarge
from scheduler_service.wire.pod_group import PayloadStored

MIB = 1 << 20


async def keep_payload(
    files: FileStore, owner: str, chunks: AsyncIterator[bytes], *, most_mib: int, limit: int | None
) -> PayloadStored:
    """Keep a payload while it streams in: at most `most_mib`, and at most `limit` bytes (rounded up to MiB)."""
    most = most_mib if limit is None else min(most_mib, -(-limit // MIB))
    with _at_most(
        "payload", most, "Send less: load big data inside the cell, from a file both can read."
    ):
        return await files.keep_payload(owner, chunks, limit_mib=most)


async def keep_result(
    files: FileStore, name: str, chunks: AsyncIterator[bytes], *, most_mib: int
) -> None:
    """Keep a result while it streams in."""
    with _at_most(
        "result", most_mib, "Return less: write big results to a file and return its name."
    ):
        await files.keep_result(name, chunks, limit_mib=most_mib)


def payload_missing() -> RefusedRequest:
    """Return the answer to a pod whose payload is not there."""
    return refusal("unknown_payload", "The payload of this pod is not there.", "Submit it again.")


@contextmanager
def _at_most(what: str, most_mib: int, hint: str) -> Iterator[None]:
    try:
        with as_refusal():
            yield
    except TooLarge as error:
        text = f"The {what} is larger than {most_mib} MiB."
        raise refusal(f"{what}_too_large", text, hint, limit_mib=most_mib) from error
