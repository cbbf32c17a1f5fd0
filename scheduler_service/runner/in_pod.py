"""`python -m scheduler_service.runner.in_pod`: what a pod of ours runs in a cluster, in place of runner and supervisor.

The kubelet starts and ends it, keeps its output, and tells of its end. So it only checks the signature, fetches the
payload, runs the work, and brings the result back. What the worker said of its end is the termination message.

    --hold [--workdir FOLDER]            hold the pod's device until told to end, and run the cells of its notebook
    --work JSON --signature HEX          run this, if it is signed with the key of the person whose pod this is
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from scheduler_service.runner import child, files, pod_process, termination
from scheduler_service.runner.cell_desk import CellDesk
from scheduler_service.runner.clock import now_ms
from scheduler_service.runner.companion import Companion, Workroom
from scheduler_service.runner.connection import Connection, ServiceRefused, until_answered
from scheduler_service.runner.options import RunnerOptions
from scheduler_service.runner.pod_folder import PodFolder
from scheduler_service.runner.pod_process import BY_SIGNAL
from scheduler_service.runner.start_plan import StartPlan
from scheduler_service.runner.work_argv import NOT_SIGNED, argv_of, is_signed_payload
from scheduler_service.wire.codec import decode
from scheduler_service.wire.pod_group import Work
from scheduler_service.wire.runner import Report, StartOrder
from scheduler_service.wire.signing import KeyFileExposed, is_signed_work, load_key

REFUSED = 3
"""Exit code for work that was never begun, as the worker's."""
SERVICE_AWAY_S = 600.0
"""The device is held no longer than this for a service that does not come back."""


@dataclass(frozen=True, slots=True)
class NotRun:
    """Why the work was not begun: a word for programs, a sentence for people."""

    code: str
    text: str
    exit_code: int = REFUSED


@dataclass(frozen=True, slots=True)
class Place:
    """Where this pod is and how it reaches the service: what its variables say."""

    url: str
    token_file: Path
    folder: PodFolder
    key_file: Path
    incarnation: str
    environ: Mapping[str, str]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Place:
        """Read the variables that the service gave the pod."""
        return cls(
            url=environ["KAI_SERVICE_URL"],
            token_file=Path(environ["KAI_POD_TOKEN_FILE"]),
            folder=PodFolder(Path(environ["KAI_POD_FOLDER"], "pod")),
            key_file=Path(environ.get("KAI_SIGNING_KEY_FILE", "")),
            incarnation=environ["KAI_INCARNATION"],
            environ=environ,
        )

    def order(self, work: Work, signature: str) -> StartOrder:
        """Return what the worker is to run, as a runner on one machine would have been told."""
        environ = self.environ
        workers = int(environ.get("WORLD_SIZE", "1"))
        return StartOrder(
            incarnation=self.incarnation,
            namespace=environ.get("KAI_NAMESPACE", ""),
            group=environ.get("KAI_POD_GROUP", ""),
            pod=environ.get("KAI_POD", ""),
            kind="gang" if workers > 1 else "batch",
            rank=int(environ.get("RANK", "0")),
            workers=workers,
            node=environ.get("KAI_NODE", ""),
            devices=(),
            fraction_milli=0,
            share_mib=None,
            cpu_milli=0,
            memory_bytes=0,
            grace_s=0,
            token="",
            work=work,
            signature=signature,
        )

    def token(self) -> str:
        """Return the pod's token as it is now: the kubelet renews it."""
        return self.token_file.read_text("ascii").strip()


def main(argv: list[str]) -> int:
    """Run what the arguments say; return the exit code of the pod."""
    parser = argparse.ArgumentParser(prog="in_pod", description=__doc__)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--workdir", default="")
    parser.add_argument("--work", default="{}")
    parser.add_argument("--signature", default="")
    asked = parser.parse_args(argv[1:])
    if asked.hold:
        return _hold(os.environ, asked.workdir)
    signal.signal(signal.SIGTERM, _leave)  # the first process of a container ignores it otherwise
    return run(Place.of(os.environ), decode(Work, json.loads(asked.work)), asked.signature)


def _leave(_: int, __: FrameType | None) -> None:
    """End before anything was begun."""
    sys.exit(BY_SIGNAL + signal.SIGTERM)


def _hold(environ: Mapping[str, str], workdir: str) -> int:
    """Hold the device; with a key to check them by, run the cells that come."""
    try:
        key = load_key(Path(environ.get("KAI_SIGNING_KEY_FILE", "")))
    except (OSError, KeyFileExposed) as error:
        print(f"No cells are run here: their signatures can not be checked. {error}", flush=True)  # noqa: T201
        hold()
        return 0
    place = Place.of(environ)
    desk = CellDesk(_connection(place), place.incarnation, place.token)
    companion = Companion(
        desk, Workroom(place.folder.path, _cwd_of(environ, workdir), environ), key
    )
    return asyncio.run(companion.serve())


def _cwd_of(environ: Mapping[str, str], workdir: str) -> str:
    """Return where cells run: the notebook's own folder where it is mounted here too."""
    home = environ.get("HOME") or "/"
    return workdir if workdir and Path(workdir).is_dir() else home


def hold() -> None:
    """Wait until somebody ends the pod."""
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    print("This pod holds its device until it is released.", flush=True)  # noqa: T201 - its log
    signal.sigwait(signals)


def run(place: Place, work: Work, signature: str) -> int:
    """Run signed work and tell of its end; return its exit code."""
    refusal = _refusal_of(place, work, signature) or _prepared(place, work, signature)
    if refusal is None:
        plan = _plan(place, work)
        missing = child.obstacle(plan)
        if missing is not None:
            refusal = NotRun(missing.reason_code, missing.reason_text, missing.exit_code)
        else:
            return _run(place, plan)
    print(refusal.text, file=sys.stderr)  # noqa: T201 - the pod's own log
    _tell(place, exit_code=refusal.exit_code, reason=refusal)
    return refusal.exit_code


def _refusal_of(place: Place, work: Work, signature: str) -> NotRun | None:
    try:
        key = load_key(place.key_file)
    except (OSError, KeyFileExposed) as error:
        text = f"The signature could not be checked: {error}. Is your folder mounted, with your key in it?"
        return NotRun("unsigned", text)
    if is_signed_work(key, work, signature):
        return None
    text = "Not started: the work is not signed with your key. Submit it again from your own notebook or shell."
    return NotRun("unsigned", text)


def _prepared(place: Place, work: Work, signature: str) -> NotRun | None:
    """Make the folder that the worker reads, with the payload; return why that failed."""
    place.folder.make(place.order(work, signature))
    if work.payload_sha256 is None:
        return None
    try:
        refused = asyncio.run(_fetch(place))
    except TimeoutError:
        text = f"The payload could not be had: the service at {place.url} did not answer. Submit it again."
        return NotRun("payload_missing", text)
    if refused is not None:
        return NotRun("payload_missing", f"The payload could not be had: {refused.sentence}")
    if is_signed_payload(work, place.folder.path / files.PAYLOAD):
        return None
    return NotRun("unsigned", NOT_SIGNED)


async def _fetch(place: Place) -> ServiceRefused | None:
    connection = _connection(place)

    async def attempt() -> None:
        target = place.folder.path / files.PAYLOAD
        await connection.payload(place.incarnation, place.token(), target)

    try:
        async with asyncio.timeout(SERVICE_AWAY_S):
            return await until_answered(attempt)
    finally:
        await connection.close()


def _plan(place: Place, work: Work) -> StartPlan:
    folder = place.folder.path
    return StartPlan(
        argv=argv_of(work, folder),
        env={
            "PYTHONUNBUFFERED": "1",
            **place.environ,
            "KAI_PROGRESS_FILE": str(folder / files.PROGRESS),
        },
        cwd=work.workdir or place.environ.get("HOME") or "/",
        heartbeat="",
    )


def _run(place: Place, plan: StartPlan) -> int:
    exit_code, ended_by = pod_process.run(plan)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what there is to bring back, the grace is for
    failed = _bring_back(place)
    if failed is not None:
        print(failed.text, file=sys.stderr)  # noqa: T201
        exit_code = exit_code or failed.exit_code
    _tell(place, exit_code=exit_code, ended_by=ended_by, reason=failed)
    return exit_code


def _bring_back(place: Place) -> NotRun | None:
    """Send the result up, if there is one; return why it could not be kept."""
    signature = place.folder.result_signature()
    if signature is None:
        return None
    try:
        refused = asyncio.run(_send(place, signature))
    except TimeoutError:
        text = f"The result is lost: the service at {place.url} did not answer for {SERVICE_AWAY_S:.0f} s."
        return NotRun("result_lost", text)
    if refused is None:
        return None
    return NotRun("result_lost", f"The result could not be kept: {refused.sentence}")


async def _send(place: Place, signature: str) -> ServiceRefused | None:
    connection = _connection(place)

    async def attempt() -> None:
        file = place.folder.path / files.RESULT
        await connection.put_result(place.incarnation, place.token(), file, signature)

    try:
        async with asyncio.timeout(SERVICE_AWAY_S):
            return await until_answered(attempt)
    finally:
        await connection.close()


def _connection(place: Place) -> Connection:
    """Return a connection that shows the pod's token alone, to this one service."""
    options = RunnerOptions(
        url=place.url, token_file=place.token_file, state_dir=place.folder.path / "none"
    )
    return Connection(options)


def _tell(
    place: Place, *, exit_code: int, ended_by: str | None = None, reason: NotRun | None = None
) -> None:
    """Leave for the kubelet what the worker said of its end."""
    report = Report(
        incarnation=place.incarnation,
        kind="ended",
        at=now_ms(),
        exit_code=exit_code,
        signal=ended_by,
        reason_code=None if reason is None else reason.code,
        reason_text="" if reason is None else reason.text,
        failure=place.folder.failure(),
        results=place.folder.results(),
    )
    termination.leave(report, place.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
