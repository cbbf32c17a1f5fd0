"""What is written down of each GPU kernel of a Jupyter server for the next one: one small file a kernel.

Rule: standard library and `wire` only: the keeper, a process of its own beside the server, reads them too.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from scheduler_service.wire import locate
from scheduler_service.wire.locate import start_ticks
from scheduler_service.wire.pod_group import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The notebook that a kernel belongs to, as the Jupyter server knows it."""

    id: str
    path: str
    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One kernel. The keys of its connection stay in Jupyter's own connection file."""

    kernel_id: str
    kernel_name: str
    root: str
    """The root folder of the server: a server of another folder leaves the kernel alone."""
    server: Process
    connection_file: str
    session: Session | None = None
    process: Process | None = None
    """None while it waits."""
    lease: tuple[str, str] | None = None
    """Namespace and name of the request; None for a kernel that runs without a GPU."""

    @property
    def is_orphan(self) -> bool:
        """Whether its server is gone."""
        return not lives(self.server)

    @property
    def is_running(self) -> bool:
        """Whether its own process is there."""
        return self.process is not None and lives(self.process)


def lives(process: Process) -> bool:
    """Return whether this very process is there."""
    return start_ticks(process.pid) == process.start_ticks


def folder() -> Path:
    """Return where the records are; not created."""
    return locate.state_dir() / "kernels"


def write(record: KernelRecord, where: Path) -> None:
    """Write a record so that no reader ever sees half of it; for its owner only."""
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = where / f"{record.kernel_id}.json"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(record), file)
    temporary.replace(path)


def remove(kernel_id: str, where: Path) -> None:
    """Forget a kernel."""
    with contextlib.suppress(OSError):
        (where / f"{kernel_id}.json").unlink()


def read_all(where: Path) -> Iterator[KernelRecord]:
    """Yield the records that can be read; what is damaged is passed over."""
    for path in sorted(where.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            yield _decoded(json.loads(path.read_text("utf-8")))


def _decoded(data: dict[str, object]) -> KernelRecord:
    session, process, lease = data.pop("session"), data.pop("process"), data.pop("lease")
    server = data.pop("server")
    return KernelRecord(
        **data,  # type: ignore[arg-type]
        server=Process(**server),  # type: ignore[arg-type]
        session=None if session is None else Session(**session),  # type: ignore[arg-type]
        process=None if process is None else Process(**process),  # type: ignore[arg-type]
        lease=None if lease is None else tuple(lease),  # type: ignore[arg-type]
    )
