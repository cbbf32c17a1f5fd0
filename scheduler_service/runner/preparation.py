"""From a start order to a folder a supervisor can start from: signature, payload, plan. A refusal is a value."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from scheduler_service.runner import environment, files, start_plan
from scheduler_service.runner.connection import Connection, ServiceRefused
from scheduler_service.runner.environment import GangPorts
from scheduler_service.runner.options import RunnerOptions
from scheduler_service.runner.pod_folder import PodFolder, is_safe_name
from scheduler_service.runner.supervision import Refusal
from scheduler_service.runner.work_argv import NOT_SIGNED, argv_of, is_signed_payload
from scheduler_service.wire.pod_group import Work
from scheduler_service.wire.runner import StartOrder
from scheduler_service.wire.signing import KeyFileExposed, is_signed_work


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares pods for one runner."""

    options: RunnerOptions
    connection: Connection

    def folder_of(self, incarnation: str) -> PodFolder:
        """Return the folder of a pod, made or not."""
        return PodFolder(self.options.pods_dir / incarnation)

    async def prepare(self, order: StartOrder) -> PodFolder | Refusal:
        """Make the folder of a signed order, with its payload, once the signature proved to be the owner's."""
        refusal = self._refusal_of(order)
        if refusal is not None:
            return refusal
        folder = self.folder_of(order.incarnation)
        try:
            folder.make(order)
            return await self._fetch(order, folder) or folder
        except OSError as error:
            return _no_room(error, folder.path)

    def write_plan(
        self,
        order: StartOrder,
        folder: PodFolder,
        *,
        ports: GangPorts | None,
        cores: tuple[int, ...],
        attempt: int,
    ) -> Refusal | None:
        """Write what the supervisor is to start."""
        work = order.work or Work()
        own = {
            "KAI_SIGNING_KEY_FILE": str(self.options.key_path),
            "KAI_PROGRESS_FILE": str(folder.path / files.PROGRESS),
        }
        count = os.cpu_count() or 1
        plan = start_plan.StartPlan(
            argv=argv_of(work, folder.path),
            env=environment.pod_environment(order, os.environ, ports=ports, cores=count) | own,
            cwd=work.workdir or str(Path.home()),
            heartbeat=str(self.options.heartbeat),
            lost_after_s=self.options.lost_after_s,
            grace_s=order.grace_s,
            cores=cores,
            data_bytes=_data_bound(order),
            log_segment_bytes=self.options.log_segment_bytes,
            log_segments=self.options.log_segments,
            attempt=attempt,
        )
        try:
            files.write_json(folder.path / files.START, start_plan.to_json(plan))
        except OSError as error:
            return _no_room(error, folder.path)
        return None

    def _refusal_of(self, order: StartOrder) -> Refusal | None:
        if not is_safe_name(order.incarnation):
            return Refusal("bad_order", f"The pod's id {order.incarnation!r} can not be used.")
        work = order.work
        if work is None or not (work.command or work.payload_sha256):
            return Refusal("no_work", "The request says nothing to run. Give a command.")
        try:
            signed = is_signed_work(self.options.key(), work, order.signature)
        except (KeyFileExposed, OSError) as error:
            return Refusal("unsigned", f"The signature could not be checked: {error}")
        if signed:
            return None
        text = "Not started: its command is not signed with your key. Submit it again from your own account."
        return Refusal("unsigned", text)

    async def _fetch(self, order: StartOrder, folder: PodFolder) -> Refusal | None:
        work = order.work
        if work is None or work.payload_sha256 is None:
            return None
        target = folder.path / files.PAYLOAD
        try:
            await self.connection.payload(order.incarnation, order.token, target)
        except ServiceRefused as refusal:
            return Refusal("payload_missing", f"The payload could not be had: {refusal.sentence}")
        if is_signed_payload(work, target):
            return None
        target.unlink()
        return Refusal("unsigned", NOT_SIGNED)


def _data_bound(order: StartOrder) -> int | None:
    """Return the bound on each process; none beside a real device, whose driver reserves far more than it uses."""
    return None if environment.has_real_device(order) else order.memory_bytes or None


def _no_room(error: OSError, path: Path) -> Refusal:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        text = f"The disk of {path.parent} is full, so the pod can not start. Make room there and submit again."
        return Refusal("disk_full", text)
    text = f"{path} can not be written: {error.strerror}. Check the folder's owner and mode."
    return Refusal("state_not_writable", text)
