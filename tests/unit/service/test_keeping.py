"""What is too much is refused by the smaller of two bounds, whatever unit each is told in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.ports import PayloadTooLarge
from scheduler_service.service.keeping import MIB, keep_payload, keep_result
from scheduler_service.store.files import FileStore


async def sent(mib: int) -> AsyncIterator[bytes]:
    for _ in range(mib):
        yield bytes(MIB)


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "files"), tmp_path / "scratch")


@pytest.mark.parametrize(("most_mib", "limit"), [(1, None), (1, 9 * MIB), (9, MIB), (9, MIB - 1)])
def test_a_payload_over_the_smaller_bound_is_refused(
    files: FileStore, most_mib: int, limit: int | None
) -> None:
    asked = keep_payload(files, "ana", sent(2), most_mib=most_mib, limit=limit)
    with pytest.raises(PayloadTooLarge, match="larger than 1 MiB") as refused:
        asyncio.run(asked)
    assert refused.value.problem.facts == {"limit_mib": 1}


def test_a_payload_within_both_is_kept(files: FileStore) -> None:
    stored = asyncio.run(keep_payload(files, "ana", sent(2), most_mib=3, limit=2 * MIB))
    assert stored.size == 2 * MIB


def test_a_result_says_that_it_is_one(files: FileStore) -> None:
    with pytest.raises(PayloadTooLarge, match="The result is larger than 1 MiB"):
        asyncio.run(keep_result(files, "x", sent(2), most_mib=1))
