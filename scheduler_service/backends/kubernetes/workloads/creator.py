"""Makes in the cluster what people ask of the API, and ends it: all of a request's objects, or none.

Rules: 1. Each request is judged as if the caller made the objects themselves (`access`). 2. Objects are created, never
changed: who comes second with a key meets what the first made. 3. The object that stands for the request owns the
others, so its end is theirs. 4. What can not be made whole is taken back.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from scheduler_service.backends.kubernetes import names
from scheduler_service.backends.kubernetes.client import KubeClient
from scheduler_service.backends.kubernetes.encode.event import News, On, event
from scheduler_service.backends.kubernetes.errors import (
    Conflict,
    KubeError,
    NotFound,
    TooMany,
    Unauthorized,
    Unavailable,
)
from scheduler_service.backends.kubernetes.workloads import access, folders, pod
from scheduler_service.backends.kubernetes.workloads.making import make
from scheduler_service.backends.kubernetes.workloads.refusals import refusal
from scheduler_service.backends.kubernetes.workloads.rules import CONFIG_MAP, Rules, rules_of
from scheduler_service.backends.kubernetes.workloads.wish import (
    folder_name,
    in_cluster,
    object_name,
)
from scheduler_service.errors import ConfigurationError
from scheduler_service.ports import Caller
from scheduler_service.wire.pod_group import Submit

log = logging.getLogger("kai.workloads")
Table = dict[str, Any]
MAKES = {
    resource.kind: resource
    for resource in (names.PODS, names.JOBS, names.SERVICES, *names.WORKLOADS.values())
}
ENDED = "EndedByRequest"
STANDS = (names.PODS, names.JOBS, *names.WORKLOADS.values())
"""The kinds that stand for a request, the likelier first."""
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Made:
    """The object that stands for a request, as the cluster holds it."""

    resource: names.Resource
    object: Table

    @property
    def uid(self) -> str:
        """Its identity: what is deleted is this one and no later one of its name."""
        return str(self.object["metadata"]["uid"])

    @property
    def owner(self) -> str:
        """Whose request it is; "" for an object that is not of our making."""
        meta = self.object["metadata"]
        if not pod.MANAGED_BY.items() <= meta.get("labels", {}).items():
            return ""
        return str(meta.get("annotations", {}).get(names.OWNER_ANNOTATION, ""))

    def reference(self) -> Table:
        """Return the reference by which it owns another object."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.object["metadata"]["name"],
            "uid": self.uid,
        }


class Creator:
    """`create` and `end`; `house` is our own namespace, where the rules stand."""

    def __init__(self, client: KubeClient, *, house: str = names.NAMESPACE) -> None:
        self._client = client
        self._house = house

    async def create(
        self, caller: Caller, ask: Submit, idempotency_key: str | None
    ) -> tuple[str, str, bool]:
        """Return namespace and name of what was made, and whether it is new. Raises `RefusedRequest`."""
        with _told():
            rules = await self._rules()
            namespace = self._namespace(caller, ask, rules)
            await access.require_pods(self._client, caller, namespace)
            labels = await access.require_open(self._client, namespace)
            queue = await access.queue_for(
                self._client, caller, ask.queue, labels=labels, place=(namespace, rules)
            )
            workload = in_cluster(ask).workload
            if workload is not None:
                await access.require_installed(self._client, workload)
            claim = folder_name(ask, caller.user, rules)
            folder = await folders.find(self._client, namespace, claim) if claim else None
            name = object_name(
                ask,
                owner=caller.user,
                namespace=namespace,
                key=idempotency_key or secrets.token_hex(16),
            )
            objects = make(
                replace(ask, queue=queue),
                owner=caller.user,
                namespace=namespace,
                name=name,
                rules=rules,
                folder=folder,
            )
            is_new = await self._put(caller, objects, is_known=idempotency_key is not None)
        return namespace, name, is_new

    async def end(self, namespace: str, name: str, reason: str) -> None:
        """Remove a request with all that was made for it, if we made it. Who may is asked by the caller."""
        with _told():
            found = await self._standing(namespace, name)
            if found is not None and found.owner:
                await self._tell(found, reason)
                await self._remove(found)

    async def _rules(self) -> Rules:
        try:
            raw = await self._client.get(names.CONFIG_MAPS.path(self._house, CONFIG_MAP))
            return rules_of(_decode(raw).get("data"))
        except NotFound:
            return rules_of(None)
        except ConfigurationError as error:
            raise refusal("rules_unreadable", error.what, f"{error.why} {error.hint}") from error

    @staticmethod
    def _namespace(caller: Caller, ask: Submit, rules: Rules) -> str:
        named = in_cluster(ask).namespace or rules.namespace_of(caller.user)
        if not named:
            raise refusal(
                "namespace_needed",
                "The rules of this cluster give you no namespace.",
                "Name the one in which your pods are to be made.",
            )
        return named

    async def _put(self, caller: Caller, objects: tuple[Table, ...], *, is_known: bool) -> bool:
        """Create all of `objects`; what an earlier request of the same key left undone is done now."""
        first, *others = objects
        main, is_new = await self._first(caller, first, is_known=is_known)
        if main.resource.kind != first["kind"]:
            return False  # the key was used for something else: that is what it stands for
        try:
            for one in others:
                await self._beside(main, one)
        except BaseException:  # cancelled as well: nobody would look after the half that is there
            if is_new:
                await self._take_back(main)
            raise
        return is_new

    async def _first(self, caller: Caller, body: Table, *, is_known: bool) -> tuple[Made, bool]:
        """Return the object that stands for the request, made now or found."""
        resource, meta = MAKES[body["kind"]], body["metadata"]
        place = meta["namespace"], meta["name"]
        found = await self._standing(*place) if is_known else None
        if found is None:
            try:
                return Made(resource, await self._create(resource, body)), True
            except Conflict:
                found = await self._find(resource, *place)
            except Unavailable:  # it may have been made, and only the answer was lost
                found = await self._find(resource, *place)
                if found is None:
                    raise
                return found, True
        if found is None or found.owner != caller.user:
            raise refusal(
                "name_taken",
                f"There is an object {meta['name']} in {meta['namespace']} that is no request of yours.",
                "Ask again with another name.",
            )
        return found, False

    async def _beside(self, main: Made, body: Table) -> None:
        """Create an object that `main` owns, unless it is there."""
        owned = {**body, "metadata": {**body["metadata"], "ownerReferences": [main.reference()]}}
        resource, meta = MAKES[body["kind"]], body["metadata"]
        try:
            await self._create(resource, owned)
        except Conflict as conflict:
            if conflict.reason != "AlreadyExists":
                raise
            log.info("%s %s is there already", resource.kind, meta["name"])

    async def _create(self, resource: names.Resource, body: Table) -> Table:
        path = resource.path(body["metadata"]["namespace"])
        raw = await self._client.post(path, body, {"fieldManager": names.FIELD_MANAGER})
        made: Table = _decode(raw)
        return made

    async def _find(self, resource: names.Resource, namespace: str, name: str) -> Made | None:
        try:
            return Made(resource, _decode(await self._client.get(resource.path(namespace, name))))
        except NotFound:
            return None

    async def _standing(self, namespace: str, name: str) -> Made | None:
        """Return the object that stands for a request, of whatever kind."""
        for resource in STANDS:
            found = await self._find(resource, namespace, name)
            if found is not None:
                return found
        return None

    async def _tell(self, made: Made, reason: str) -> None:
        """Say on the object why it goes; that nobody heard it is no reason to stay."""
        meta = made.object["metadata"]
        version, kind = made.resource.api_version, made.resource.kind
        on = On(version, kind, meta["namespace"], meta["name"], made.uid)
        news = News(on, "Normal", ENDED, reason, "End")
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        body = event(news, now=now, reporter=self._house)
        with contextlib.suppress(KubeError):
            await self._client.post(names.EVENTS.path(meta["namespace"]), body)

    async def _take_back(self, main: Made) -> None:
        try:
            await self._remove(main)
        except KubeError as error:
            log.warning("what was begun of %s is left: %s", main.reference()["name"], error)

    async def _remove(self, made: Made) -> None:
        """Remove an object; what it owns goes with it."""
        meta = made.object["metadata"]
        options = {"propagationPolicy": "Background", "preconditions": {"uid": made.uid}}
        with contextlib.suppress(NotFound):
            path = made.resource.path(meta["namespace"], meta["name"])
            await self._client.delete(path, options)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn what the cluster answers into a refusal with its sentence."""
    try:
        yield
    except (Unavailable, TooMany, Unauthorized) as error:
        raise refusal(
            "cluster_away",
            f"The cluster did not take it: {_sentence(error)}",
            "Ask again in a moment with the same idempotency key: nothing is made twice.",
        ) from error
    except KubeError as error:
        raise refusal("refused_by_cluster", _sentence(error), _hint(error)) from error


def _sentence(error: KubeError) -> str:
    text = (error.message or str(error)).strip()
    return text if text.endswith(".") else f"{text}."


def _hint(error: KubeError) -> str:
    if pod.ACCOUNT in error.message and "serviceaccount" in error.message:
        return f"The account {pod.ACCOUNT} is missing there: name the namespace under 'submit.namespaces'."
    if "system:serviceaccount:" in error.message:
        return "Our account may not make this there: name the namespace under 'submit.namespaces'."
    return "Change the request, or ask whoever keeps the namespace."
