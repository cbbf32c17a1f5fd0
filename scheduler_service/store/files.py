"""Payloads and results at rest, behind fsspec: a folder by default, any object store by its URL.

Rule: bytes are kept as they came; they are never unpickled here. Payloads are kept per owner, so that a digest
opens only one's own.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Collection, Iterable
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from scheduler_service.errors import BackendError
from scheduler_service.wire.pod_group import PayloadStored

MIB = 2**20


def _remove_part(part: Path) -> None:
    part.unlink(missing_ok=True)


def _write(file: FileIO, chunk: bytes) -> None:
    left = memoryview(chunk)
    try:
        while left:  # unbuffered: what could not be written is not tried again on closing
            left = left[file.write(left) :]
    except OSError as error:
        raise BackendError(
            "The disk for payloads and results can not take it: it may be full.",
            why=f"{error.strerror}.",
            hint="Free some space in the state directory and try again.",
        ) from error


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None


class TooLarge(Exception):
    """More bytes came than are allowed; nothing was kept."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"more than {limit_bytes} bytes")


def _refuse_above(limit_bytes: int, size: int) -> None:
    if size > limit_bytes:
        raise TooLarge(limit_bytes)


class FileStore:
    """Blobs under one URL. `scratch` is a local folder for what streams in and for copies from afar."""

    def __init__(self, url: str, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._scratch = scratch
        self._fs, self._root = fsspec.core.url_to_fs(url)
        if isinstance(self._fs, LocalFileSystem):
            Path(self._root).mkdir(parents=True, exist_ok=True, mode=0o700)

    async def keep_payload(
        self, owner: str, chunks: AsyncIterator[bytes], *, limit_mib: int
    ) -> PayloadStored:
        """Keep a payload while it streams in and return its digest and size."""
        part, digest, size = await self._receive(chunks, limit_mib * MIB)
        await self._settle(part, self._payload_name(owner, digest))
        return PayloadStored(sha256=digest, size=size)

    async def keep_result(
        self, incarnation: str, chunks: AsyncIterator[bytes], *, limit_mib: int
    ) -> int:
        """Keep the result of one start of a pod and return its size."""
        part, _, size = await self._receive(chunks, limit_mib * MIB)
        await self._settle(part, f"results/{incarnation}")
        return size

    def has_payload(self, owner: str, sha256: str) -> bool:
        """Whether this owner uploaded a payload of that digest."""
        return bool(self._fs.exists(self._path(self._payload_name(owner, sha256))))

    async def payload(self, owner: str, sha256: str) -> Path | None:
        """Return a local file with the payload, or None."""
        return await self._local(self._payload_name(owner, sha256))

    async def result(self, incarnation: str) -> Path | None:
        """Return a local file with the result, or None."""
        return await self._local(f"results/{incarnation}")

    def forget_results(self, incarnations: Iterable[str]) -> None:
        """Remove results whose retention is over."""
        for incarnation in incarnations:
            self._remove(f"results/{incarnation}")

    def forget_payloads(self, owner_digests: Iterable[tuple[str, str]]) -> None:
        """Remove payloads that no kept group names."""
        for owner, digest in owner_digests:
            self._remove(self._payload_name(owner, digest))

    def forget_before(self, moment: datetime, kept: Collection[str]) -> int:
        """Remove what was written before a moment, but for the payloads of these digests; return how many."""
        gone = 0
        for folder in ("payloads", "results"):
            for path in self._fs.find(self._path(folder)):
                if path.rpartition("/")[2] in kept or _utc(self._fs.modified(path)) >= moment:
                    continue
                self._fs.rm(path)
                gone += 1
        return gone

    def _remove(self, name: str) -> None:
        path = self._path(name)
        if self._fs.exists(path):
            self._fs.rm(path)

    @staticmethod
    def _payload_name(owner: str, digest: str) -> str:
        folder = hashlib.sha256(owner.encode()).hexdigest()[:16]
        safe = digest if digest.isalnum() else hashlib.sha256(digest.encode()).hexdigest()
        return f"payloads/{folder}/{safe}"

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    async def _receive(
        self, chunks: AsyncIterator[bytes], limit_bytes: int
    ) -> tuple[Path, str, int]:
        descriptor, name = tempfile.mkstemp(dir=self._scratch)
        part = Path(name)
        digest = hashlib.sha256()
        size = 0
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                async for chunk in chunks:
                    size += len(chunk)
                    _refuse_above(limit_bytes, size)
                    digest.update(chunk)
                    _write(file, chunk)
        except BaseException:
            _remove_part(part)
            raise
        return part, digest.hexdigest(), size

    async def _settle(self, part: Path, name: str) -> None:
        await asyncio.to_thread(self._put, part, self._path(name))

    def _put(self, part: Path, path: str) -> None:
        if isinstance(self._fs, LocalFileSystem):
            Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part.replace(path)
            return
        self._fs.put_file(str(part), path)
        part.unlink()

    async def _local(self, name: str) -> Path | None:
        path = self._path(name)
        if isinstance(self._fs, LocalFileSystem):
            return _if_there(Path(path))
        return await asyncio.to_thread(self._fetch, path)

    def _fetch(self, path: str) -> Path | None:
        if not self._fs.exists(path):
            return None
        copy = self._scratch / hashlib.sha256(path.encode()).hexdigest()
        self._fs.get_file(path, str(copy))
        return copy
