"""Keeps the authorities in a Secret that all replicas share, and in the webhook configurations whom the API asks."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.admission.certificates import (
    Authorities,
    Authority,
    advanced,
)
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.errors import Conflict, NotFound

log = logging.getLogger("kai.webhook")

TRIES = 5
DEVICES_HOOK = "devices.mutate.kai.scheduler"
"""Asked about pods without a share only while containers without a GPU are to see none."""
NOBODY = {"matchExpressions": [{"key": "kai.scheduler/nobody-has-this", "operator": "Exists"}]}
"""An objectSelector that costs the API server nothing: it is looked at before any condition."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SecretStore:
    """The authorities in their Secret. Of replicas that act at once one wins and the others take what it wrote."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self._path = names.SECRETS.path(namespace, name)
        self._collection = names.SECRETS.path(namespace)
        self._name = name

    async def advance(self, now: datetime) -> Authorities:
        """Return the authorities as they should be now, stored."""
        for _ in range(TRIES - 1):
            try:
                return await self._advance_once(now)
            except Conflict:
                continue
        return await self._advance_once(now)

    async def _advance_once(self, now: datetime) -> Authorities:
        try:
            secret = _decode(await self._client.get(self._path))
        except NotFound:
            fresh = advanced(None, now)
            secret = {"metadata": {"name": self._name}, "type": "Opaque"}
            await self._client.post(self._collection, {**secret, "data": _data(fresh)})
            return fresh
        known = _authorities(secret.get("data") or {})
        wanted = advanced(known, now)
        if wanted is not known:
            await self._client.put(self._path, {**secret, "data": _data(wanted)})
            log.info("the authority of the webhook was rotated")
        return wanted


def _data(authorities: Authorities) -> dict[str, str]:
    following = authorities.next
    parts = {
        "ca.crt": authorities.current.certificate,
        "ca.key": authorities.current.key,
        "next.crt": following.certificate if following is not None else b"",
        "next.key": following.key if following is not None else b"",
        "previous.crt": authorities.previous,
    }
    return {key: base64.b64encode(value).decode("ascii") for key, value in parts.items() if value}


def _authorities(data: dict[str, Any]) -> Authorities | None:
    """Return what a Secret holds; None where it is empty or broken."""
    try:
        parts = {key: base64.b64decode(str(value), validate=True) for key, value in data.items()}
    except (binascii.Error, ValueError):
        return None
    if not parts.get("ca.crt") or not parts.get("ca.key"):
        return None
    following = None
    if parts.get("next.crt") and parts.get("next.key"):
        following = Authority(parts["next.crt"], parts["next.key"])
    current = Authority(parts["ca.crt"], parts["ca.key"])
    return Authorities(current, following, parts.get("previous.crt", b""))


class Registration:
    """The two webhook configurations: their webhooks trust our authorities, and those not needed now ask nobody."""

    def __init__(self, client: KubeClient, *, mutating: str, validating: str) -> None:
        self._client = client
        self._paths = (
            names.MUTATING_WEBHOOKS.path(name=mutating),
            names.VALIDATING_WEBHOOKS.path(name=validating),
        )
        self._told: set[str] = set()

    async def keep(self, bundle: bytes, asked: Mapping[str, bool]) -> bool:
        """Write what differs; return whether both configurations exist. `asked`: webhooks that are (not) needed now."""
        text = base64.b64encode(bundle).decode("ascii")
        found = [await self._keep(path, text, asked) for path in self._paths]
        return all(found)

    async def _keep(self, path: str, bundle: str, asked: Mapping[str, bool]) -> bool:
        try:
            configuration = _decode(await self._client.get(path))
        except NotFound:
            if path not in self._told:
                log.warning(
                    "%s is not installed: nobody asks this webhook", path.rsplit("/", 1)[-1]
                )
                self._told.add(path)
            return False
        self._told.discard(path)
        patch = [*trust_patch(configuration, bundle), *asked_patch(configuration, asked)]
        if patch:
            try:
                await self._client.patch(path, patch, kind="json")
            except Conflict:
                log.info("%s changed meanwhile; it is looked at again", path.rsplit("/", 1)[-1])
        return True


def trust_patch(configuration: dict[str, Any], bundle: str) -> list[dict[str, Any]]:
    """Return the JSON patch that makes each webhook trust the bundle; empty where all do."""
    patch: list[dict[str, Any]] = []
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        if (webhook.get("clientConfig") or {}).get("caBundle") == bundle:
            continue
        path = f"/webhooks/{index}"
        patch.append({"op": "test", "path": f"{path}/name", "value": webhook.get("name")})
        patch.append({"op": "add", "path": f"{path}/clientConfig/caBundle", "value": bundle})
    return patch


def asked_patch(configuration: dict[str, Any], asked: Mapping[str, bool]) -> list[dict[str, Any]]:
    """Return the JSON patch after which only those of the named webhooks are asked that are to be."""
    patch: list[dict[str, Any]] = []
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        name = webhook.get("name")
        is_asked = webhook.get("objectSelector") != NOBODY
        if name not in asked or asked[name] == is_asked:
            continue
        path, selector = f"/webhooks/{index}", {} if asked[name] else NOBODY
        patch.append({"op": "test", "path": f"{path}/name", "value": name})
        patch.append({"op": "add", "path": f"{path}/objectSelector", "value": selector})
    return patch
