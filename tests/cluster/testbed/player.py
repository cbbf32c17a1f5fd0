"""Plays the kubelet of every fake node: pods bound there become Running, end and vanish.

A program of its own, so that it takes no time from what is measured, and without state: all that
it knows stands in the API, so it can be killed and started anew. What it does is decided by
`next_step`; a test commands it by annotations on a pod (`fake_nodes.py` has the words for it).
A pod that asks for more GPUs than the node's device plug-in has left fails at once with reason
`UnexpectedAdmissionError`, as on a real node: nothing booked twice goes unseen.

    python -m tests.cluster.testbed.player KUBECONFIG
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

FAKE_LABEL = "testbed.kai/fake"
HOLD = "testbed.kai/hold"  # annotation: "start" keeps the pod from starting, "end" from ending
ENDS = "testbed.kai/ends"  # annotation: "Succeeded" or "Failed" ends a running pod
DEVICES = "testbed.kai/devices"  # what the fake device plug-in gave, comma-separated
RESERVED_DEVICE = "run.ai/reserve_for_gpu_index"
RESERVATION_APP = "kai-resource-reservation"
GPU = "nvidia.com/gpu"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
HANDS = 32
PAUSE_S = 0.2

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One request to make for a pod: DELETE without a body, PATCH of its status with one."""

    body: Object | None = None


@dataclass
class Node:
    """The device plug-in of one fake node: which pod holds which device."""

    name: str
    count: int
    holder: dict[int, str] = field(default_factory=dict)

    def give(self, uid: str, wanted: int) -> list[str] | None:
        """Return the ids of `wanted` devices for a pod, None when there are not so many."""
        held = [index for index, holder in self.holder.items() if holder == uid]
        free = [index for index in range(self.count) if index not in self.holder]
        mine = (held + free)[:wanted]
        if len(mine) < wanted:
            return None
        self.holder.update(dict.fromkeys(mine, uid))
        return [device_id(self.name, index) for index in mine]

    def release(self, uid: str) -> None:
        """Take back what a pod held."""
        self.holder = {index: one for index, one in self.holder.items() if one != uid}

    def remember(self, pod: Object) -> None:
        """Note what a running pod was given before this program was started anew."""
        meta = pod["metadata"]
        if pod.get("status", {}).get("phase") == "Running":
            for one in filter(None, (meta.get("annotations") or {}).get(DEVICES, "").split(",")):
                self.holder.setdefault(int(one.rpartition("-")[2]), meta["uid"])


def device_id(node: str, index: int) -> str:
    """Return the id of a fake device, different on each node."""
    return f"GPU-fake-{node}-{index:04d}"


def next_step(pod: Object, node: Node, now: str) -> Step | None:
    """Return what a kubelet would do for this pod now; None when there is nothing to do."""
    meta, status = pod["metadata"], pod.get("status", {})
    notes = meta.get("annotations") or {}
    phase = status.get("phase", "Pending")
    over = phase in {"Succeeded", "Failed"}
    if over or meta.get("deletionTimestamp"):
        node.release(meta["uid"])
    if meta.get("deletionTimestamp"):
        return None if notes.get(HOLD) == "end" else Step()
    if over:
        return None
    if phase == "Running":
        return Step(_ended(pod, notes[ENDS], now)) if notes.get(ENDS) else None
    return None if notes.get(HOLD) == "start" else Step(_started(pod, node, now))


def _started(pod: Object, node: Node, now: str) -> Object:
    uid = pod["metadata"]["uid"]
    devices = node.give(uid, _gpus(pod))
    if devices is None:
        return {
            "metadata": {"uid": uid},
            "status": {
                "phase": "Failed",
                "reason": "UnexpectedAdmissionError",
                "message": f"Allocate failed: {GPU}: fewer devices are free than asked for",
            },
        }
    notes = {DEVICES: ",".join(devices)} if devices else {}
    if devices and (pod["metadata"].get("labels") or {}).get("app") == RESERVATION_APP:
        notes[RESERVED_DEVICE] = devices[0]  # what the program in a reservation pod finds and says
    address = _address(uid)
    return {
        "metadata": {"uid": uid, "annotations": notes},
        "status": {
            "phase": "Running",
            "startTime": now,
            "hostIP": "10.127.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers")
            ],
            "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, ready=True),
        },
    }


def _ended(pod: Object, phase: str, now: str) -> Object:
    code = 0 if phase == "Succeeded" else 1
    reason = "Completed" if code == 0 else "Error"
    end = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now}}
    return {
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {
            "phase": phase,
            "conditions": [
                {
                    "type": kind,
                    "status": "False",
                    "reason": f"Pod{'Completed' if code == 0 else 'Failed'}",
                    "lastTransitionTime": now,
                }
                for kind in ("Ready", "ContainersReady")
            ],
            "containerStatuses": _containers(pod, end, ready=False),
        },
    }


def _containers(pod: Object, state: Object, *, ready: bool) -> list[Object]:
    return [
        {
            "name": one["name"],
            "image": one.get("image", ""),
            "imageID": "",
            "containerID": f"fake://{pod['metadata']['uid']}/{one['name']}",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for one in pod["spec"]["containers"]
    ]


def _gpus(pod: Object) -> int:
    wanted = (
        one.get("resources", {}).get("limits", {}).get(GPU, 0) for one in pod["spec"]["containers"]
    )
    return sum(map(int, wanted))


def _address(uid: str) -> str:
    number = int(uid[:8], 16)
    return f"10.{130 + number % 64}.{number >> 8 & 255}.{1 + (number >> 16) % 254}"


class Player:
    """Watches nodes and pods and carries out `next_step` for each change."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Object] = {}
        self._wanted: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._to_list = {NODES, PODS}
        self._listed = asyncio.Event()

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(NODES, {"labelSelector": FAKE_LABEL}))
            tasks.create_task(self._follow(PODS, {"fieldSelector": "spec.nodeName!="}))
            for _ in range(HANDS):
                tasks.create_task(self._work())

    async def _follow(self, path: str, parameters: Mapping[str, str]) -> None:
        while True:
            with suppress(aiohttp.ClientError, TimeoutError, OSError, Stale):
                since = await self._list(path, parameters)
                async for kind, one in self._watch(path, {**parameters, "resourceVersion": since}):
                    self._note(path, kind, one)
            await asyncio.sleep(PAUSE_S)

    async def _list(self, path: str, parameters: Mapping[str, str]) -> str:
        async with self._session.get(self._server + path, params=parameters) as answer:
            answer.raise_for_status()
            page = json.loads(await answer.read())
        known = self._pods if path == PODS else self._nodes
        seen = {_key(path, one): one for one in page["items"]}
        for gone in set(known) - set(seen):
            known.pop(gone)
        for one in seen.values():
            self._note(path, "ADDED", one)
        self._to_list.discard(path)
        if not self._to_list:
            self._listed.set()
        return str(page["metadata"]["resourceVersion"])

    async def _watch(
        self, path: str, parameters: Mapping[str, str]
    ) -> AsyncIterator[tuple[str, Object]]:
        query = {**parameters, "watch": "1", "timeoutSeconds": "300"}
        async with self._session.get(self._server + path, params=query) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Stale
                yield event["type"], event["object"]

    def _note(self, path: str, kind: str, one: Object) -> None:
        if path == NODES:
            self._note_node(kind, one)
            return
        uid = one["metadata"]["uid"]
        node = self._nodes.get(one["spec"]["nodeName"])
        if kind != "DELETED":
            self._pods[uid] = one
            if node is not None:
                node.remember(one)
            self._want(uid)
            return
        self._pods.pop(uid, None)
        if node is not None:
            node.release(uid)

    def _note_node(self, kind: str, one: Object) -> None:
        name = one["metadata"]["name"]
        if kind == "DELETED":
            self._nodes.pop(name, None)
            return
        count = int(one["status"].get("allocatable", {}).get(GPU, 0))
        if name in self._nodes:
            self._nodes[name].count = count
        else:
            node = self._nodes[name] = Node(name, count)
            for uid, pod in self._pods.items():
                if pod["spec"]["nodeName"] == name:
                    node.remember(pod)
                    self._want(uid)

    def _want(self, uid: str) -> None:
        if uid not in self._queued:
            self._queued.add(uid)
            self._wanted.put_nowait(uid)

    async def _work(self) -> None:
        await self._listed.wait()  # who holds which device is known before one is given away
        while True:
            uid = await self._wanted.get()
            self._queued.discard(uid)
            pod = self._pods.get(uid)
            node = pod and self._nodes.get(pod["spec"]["nodeName"])
            if pod and node:
                step = next_step(pod, node, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
                if step is not None and not await self._carry_out(pod, step):
                    await asyncio.sleep(PAUSE_S)
                    self._want(uid)

    async def _carry_out(self, pod: Object, step: Step) -> bool:
        """Make the request; False when it is to be tried again."""
        meta = pod["metadata"]
        path = f"{self._server}/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            if step.body is None:
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
                async with self._session.delete(path, json=options) as answer:
                    return answer.status < 429
            headers = {"Content-Type": "application/strategic-merge-patch+json"}
            data = json.dumps(step.body)
            async with self._session.patch(f"{path}/status", data=data, headers=headers) as answer:
                return answer.status < 429
        return False


class Stale(Exception):
    """The server has forgotten the version from which a watch was to go on."""


def _key(path: str, one: Object) -> str:
    return str(one["metadata"]["uid" if path == PODS else "name"])


async def play(kubeconfig: str) -> None:
    """Play for the cluster of a kubeconfig of `identity.login`."""
    document = yaml.safe_load(kubeconfig)
    cluster = document["clusters"][0]["cluster"]
    trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {document['users'][0]['user']['token']}"},
        connector=aiohttp.TCPConnector(ssl=trust, limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        read_bufsize=1 << 22,
    ) as session:
        await Player(session, cluster["server"]).run()


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]).read_text()))
