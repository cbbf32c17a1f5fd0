"""Payloads and results: kept as they came, per owner, whole or not at all; on any file system that fsspec knows."""

from __future__ import annotations

import asyncio
import hashlib
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.errors import BackendError
from scheduler_service.store.files import MIB, FileStore, TooLarge


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize("url", ["{folder}/files", "memory://kai-{name}"])
def test_a_payload_opens_only_for_its_owner(tmp_path: Path, url: str) -> None:
    store = FileStore(url.format(folder=tmp_path, name=tmp_path.name), tmp_path / "scratch")

    async def story() -> None:
        stored = await store.keep_payload("ana", chunks(b"a", b"bc"), limit_mib=1)
        assert (stored.sha256, stored.size) == (hashlib.sha256(b"abc").hexdigest(), 3)
        assert store.has_payload("ana", stored.sha256)
        assert not store.has_payload("ben", stored.sha256)
        path = await store.payload("ana", stored.sha256)
        assert path is not None
        assert path.read_bytes() == b"abc"
        assert await store.payload("ben", stored.sha256) is None
        store.forget_payloads([("ana", stored.sha256)])
        assert not store.has_payload("ana", stored.sha256)

    asyncio.run(story())


def test_too_large_keeps_nothing(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "files"), tmp_path / "scratch")

    async def story() -> None:
        with pytest.raises(TooLarge):
            await store.keep_payload("ana", chunks(b"x" * MIB, b"y"), limit_mib=1)

    asyncio.run(story())
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []


def test_an_upload_that_breaks_off_keeps_nothing(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "files"), tmp_path / "scratch")

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(store.keep_result("i", broken(), limit_mib=1))
    assert list((tmp_path / "scratch").iterdir()) == []
    assert asyncio.run(store.result("i")) is None


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: the write fails in the kernel, as it would."""
    store = FileStore(str(tmp_path / "files"), tmp_path / "scratch")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(BackendError, match="disk"):
            asyncio.run(store.keep_payload("ana", chunks(b"x" * 5000), limit_mib=1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_digest_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    store = FileStore(str(tmp_path / "files"), tmp_path / "scratch")
    for name in ("../../../secret", "/etc/passwd", "..", ""):
        assert not store.has_payload("ana", name)
