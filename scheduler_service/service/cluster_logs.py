"""The logs of a cluster's groups through the API: asked of the kubelets when somebody reads, kept for a short while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.errors import (
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
)
from scheduler_service.backends.kubernetes.objects import RawPod
from scheduler_service.backends.kubernetes.reviews import Deed
from scheduler_service.ports import Caller, LogAsk
from scheduler_service.service.cluster_core import ClusterParts
from scheduler_service.service.cluster_log_lines import GroupLog
from scheduler_service.service.cluster_writes import ClusterWrites
from scheduler_service.service.refusals import refusal
from scheduler_service.store.records import GroupRecord
from scheduler_service.wire.runner import LogPage

LONGEST_WAIT_S = 30.0
MOST_LOGS = 20
FIRST_LINES = 5_000
"""So many lines of a group are asked for at first, shared among its pods."""
FEWEST_LINES = 100
MOST_BYTES = 1 << 20
AT_A_TIME = 8
PACE_S = 1.0
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class ClusterLogs(ClusterWrites):
    """The reader's side of the cluster's door."""

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self._logs: OrderedDict[str, tuple[GroupLog, asyncio.Lock]] = OrderedDict()

    async def logs(self, caller: Caller, namespace: str, name: str, ask: LogAsk) -> LogPage:
        """Return log lines, waiting up to `wait_s` for the first new one."""
        record = self.seen(caller, namespace, name)
        await self._require_logs(caller, record)
        kept, busy = self._log(record)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(0.0, ask.wait_s), LONGEST_WAIT_S)
        while True:
            now = self.records.find(record.key) or record
            async with busy:
                await self._read(now, kept, ask.rank)
            page = kept.page(rank=ask.rank, after=ask.after, tail=ask.tail, ended=now.is_over)
            pause = max(PACE_S, len(now.pods) / AT_A_TIME / 2)
            if page.lines or page.ended or loop.time() + pause > until:
                return page
            await asyncio.sleep(pause)

    def _log(self, record: GroupRecord) -> tuple[GroupLog, asyncio.Lock]:
        """Return what is kept of a group's lines; those that nobody read for long go first."""
        logs = self._logs
        mark = f"{record.key} {record.created_at}"
        found = logs.setdefault(mark, (GroupLog(), asyncio.Lock()))
        logs.move_to_end(mark)
        while len(logs) > MOST_LOGS:
            logs.popitem(last=False)
        return found

    async def _require_logs(self, caller: Caller, record: GroupRecord) -> None:
        deed = Deed(verb="get", resource=names.PODS, sub="log", namespace=record.namespace)
        if await self.is_theirs(caller, record):
            return
        if not await self.rights.may(self.rights.person(caller), deed):
            raise refusal(
                "not_allowed",
                f"{caller.user} may not read logs in the namespace {record.namespace}.",
                "That needs the right to get pods/log there.",
            )

    # -- reading -----------------------------------------------------------------------------------
    async def _read(self, record: GroupRecord, kept: GroupLog, rank: int | None) -> None:
        """Take what is new of the pods' logs."""
        pods = [
            (number, raw)
            for number, raw in self.records.pods(record)
            if raw.spec.node_name and rank in {None, number}
        ]
        first = max(FEWEST_LINES, FIRST_LINES // max(1, len(pods)))
        for part in (pods[i : i + AT_A_TIME] for i in range(0, len(pods), AT_A_TIME)):
            kept.take(await self._texts(part, kept, first))

    async def _texts(
        self, pods: Sequence[tuple[int, RawPod]], kept: GroupLog, first: int
    ) -> dict[tuple[int, str], str]:
        texts = await asyncio.gather(*(self._text(raw, kept, first) for _, raw in pods))
        return {
            (rank, raw.metadata.uid): text for (rank, raw), text in zip(pods, texts, strict=True)
        }

    async def _text(self, raw: RawPod, kept: GroupLog, first: int) -> str:
        """Return what the API says of one pod's log; nothing for a pod that has none yet, or no more."""
        meta = raw.metadata
        asked = {"timestamps": "true", "limitBytes": str(MOST_BYTES), "container": _container(raw)}
        since = kept.since(meta.uid)
        if since is None:
            asked["tailLines"] = str(first)
        else:
            asked["sinceTime"] = since
        path = names.PODS.path(meta.namespace, meta.name, "log")
        try:
            found = await self.cluster.client.get(path, asked)
        except (NotFound, Invalid):
            return ""
        except Forbidden as error:
            raise refusal(
                "no_logs",
                f"The service may not read logs in the namespace {meta.namespace}.",
                f"Name it in submit.namespaces of the chart; or: kubectl logs {meta.name} -n {meta.namespace}",
            ) from error
        except KubeError as error:
            raise refusal(
                "no_logs",
                f"The node {raw.spec.node_name} does not give the log of {meta.name}: {error.message[:200]}",
                "Try again in a moment.",
            ) from error
        return found.decode("utf-8", "replace")


def _container(raw: RawPod) -> str:
    """Return which container's log is meant where nobody says: the one that kubectl takes."""
    named = raw.metadata.annotations.get(DEFAULT_CONTAINER, "")
    known = [container.name for container in raw.spec.containers]
    return named if named in known else next(iter(known), "")
