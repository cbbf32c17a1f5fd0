"""What a runner finds in the pods' folders when it starts: what has begun goes on, what has not is cleared away."""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path

from scheduler_service.runner import supervision
from scheduler_service.runner.group import Member
from scheduler_service.runner.pod_folder import PodFolder

LOG = logging.getLogger("kai.runner")
UNREADABLE_GRACE_S = 15.0


async def take_stock(
    pods_dir: Path,
) -> tuple[dict[tuple[str, str], list[Member]], tuple[str, ...]]:
    """Return by group the pods that have begun, and what was ended because its order can not be read.

    What has not begun never will: its supervisor ends with the runner that it waited for. Its folder goes, and it may
    be started afresh.
    """
    unreadable = []
    begun: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for folder in _folders(pods_dir):
        order = folder.order()
        if order is not None and (order.process is not None or folder.begun()):
            begun[order.namespace, order.group].append(Member(order, folder))
        else:
            if folder.begun():
                unreadable.append(folder.path.name)
            await _clear(folder)
    return dict(begun), tuple(unreadable)


async def _clear(folder: PodFolder) -> None:
    what = "its order can not be read" if folder.begun() else "it had not begun"
    LOG.info("pod %s is cleared away: %s", folder.path.name, what)
    if folder.begun():
        supervision.ask_to_stop(folder, grace_s=UNREADABLE_GRACE_S, reason="Its order is lost.")
    await supervision.until_unsupervised(folder)
    if folder.begun():
        supervision.end_remains(folder, folder.path.name)
        folder.keep()
    folder.remove()


def _folders(pods_dir: Path) -> list[PodFolder]:
    return [PodFolder(path) for path in sorted(pods_dir.iterdir())] if pods_dir.is_dir() else []
