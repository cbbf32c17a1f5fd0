"""The tests' own hand on the API server: small, synchronous, safe in threads.

It is no part of what is tested. `path` is always the path of the API, as in the documentation:
`/api/v1/namespaces/default/pods/a`; `path_of(object)` finds it for an object of any kind.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from tests.cluster.testbed.identity import Login
from tests.cluster.testbed.process import FAIL_SAFE_S
from tests.cluster.testbed.stream import Event, Stream

type_of_patch = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
HANDS = 16
QUIET_S = 30.0
RETRIED = {429, 503}
RETRIES = 100
DISRUPTION = b"DisruptionBudget"  # a 429 that is an answer, not a wish for peace
RETRY_PAUSE_S = 0.2
FIELD_MANAGER = "kai-tests"
FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount")

Object = dict[str, Any]


class ApiError(Exception):
    """The API server's no: its status code, its reason, its sentence."""

    def __init__(self, status: int, answer: Mapping[str, Any], request: str) -> None:
        self.status = status
        self.reason = str(answer.get("reason", ""))
        self.message = str(answer.get("message", ""))
        super().__init__(f"{request}: {status} {self.reason}: {self.message}")


class Admin:
    """Requests as one user; see the module for what a path is."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._idle: deque[tuple[http.client.HTTPSConnection, float]] = deque()
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """What the server's certificate is checked with; it is made when the server first starts."""
        return ssl.create_default_context(cafile=str(self.login.ca_file))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept for the next requests."""
        while self._idle:
            self._idle.pop()[0].close()

    def get(self, path: str, **parameters: str) -> Object:
        """Return one object, or one page of a list as it was sent."""
        return self._request("GET", path, parameters=parameters)

    def text(self, path: str) -> str:
        """Return an answer as it is: logs, metrics."""
        status, text = self._exchange("GET", path, None, self._headers())
        if status >= 400:
            raise ApiError(status, _decoded(text), f"GET {path}")
        return text.decode(errors="replace")

    def find(self, path: str) -> Object | None:
        """Return one object, or None when there is no such object."""
        return _unless_missing(lambda: self.get(path))

    def list(self, path: str, **parameters: str) -> list[Object]:
        """Return all objects of a collection."""
        items: list[Object] = []
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = self.get(path, limit="500", **parameters, **more)
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    def post(self, path: str, body: Object) -> Object:
        """Create an object (or a sub-resource such as a binding or an eviction)."""
        return self._request("POST", path, body)

    def create(self, body: Object) -> Object:
        """Create an object of any kind where its own metadata says."""
        return self.post(self.path_of(body).rpartition("/")[0], body)

    def put(self, path: str, body: Object) -> Object:
        """Replace an object."""
        return self._request("PUT", path, body)

    def patch(self, path: str, body: Any, kind: str = "merge") -> Object:
        """Change an object: `kind` is merge, json or strategic."""
        return self._request("PATCH", path, body, content_type=type_of_patch[kind])

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        """Delete an object or a whole collection; nothing happens when it is gone already."""
        options: Object = {"propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        _unless_missing(lambda: self._request("DELETE", path, options))

    def apply(self, source: Path | Object | Iterable[Object]) -> list[Object]:
        """Apply objects, or the YAML files in a file or folder, server-side; returns what is there.

        Namespaces, CRDs and accounts go first, and CRDs are served when this returns.
        """
        objects = sorted(_objects(source), key=lambda one: one["kind"] not in FIRST)
        applied: list[Object] = []
        for number, one in enumerate(objects):
            applied.append(self._apply(one))
            after = objects[number + 1]["kind"] if number + 1 < len(objects) else ""
            if one["kind"] == "CustomResourceDefinition" and after != one["kind"]:
                self._wait_for_crds(applied)
        return applied

    def path_of(self, one: Object) -> str:
        """Return the path of an object of any kind that the server knows."""
        version, kind = one["apiVersion"], one["kind"]
        plural, namespaced = self._plural(version, kind)
        space = one["metadata"].get("namespace", "default")
        place = f"/namespaces/{space}" if namespaced else ""
        return f"{_root(version)}{place}/{plural}/{one['metadata'].get('name', '')}"

    def watch(self, path: str, *, since: str, **parameters: str) -> Iterator[tuple[str, Object]]:
        """Yield (type, object) as they come; ends when the server ends the stream."""
        with self._stream(path, since, parameters) as stream:
            for batch in stream.batches():
                yield from batch

    def wait_for(
        self,
        path: str,
        right: Callable[[dict[str, Object]], bool],
        what: str,
        *,
        fail_safe_s: float = FAIL_SAFE_S,
        **parameters: str,
    ) -> dict[str, Object]:
        """Return the objects of a collection by name ("space/name" across namespaces) once
        `right` says yes of them; it is asked after each change that the server tells.
        """
        end = time.monotonic() + fail_safe_s
        while True:
            page = self.get(path, **parameters)
            names = {_name(path, one): one for one in page["items"]}
            if right(names):
                return names
            if self._follow(path, page["metadata"]["resourceVersion"], names, right, parameters):
                return names
            if time.monotonic() > end:
                raise TimeoutError(f"after {fail_safe_s:.0f} s still not: {what}\n{_told(names)}")

    def wait_for_one(
        self, path: str, right: Callable[[Object], bool], what: str, **options: Any
    ) -> Object:
        """Return one object once it exists and `right` says yes of it."""
        collection, _, name = path.rpartition("/")
        only = {"fieldSelector": f"metadata.name={name}"}
        found = self.wait_for(
            collection, lambda all_: any(map(right, all_.values())), what, **only, **options
        )
        return next(iter(found.values()))

    def wait_until_gone(self, path: str, **options: Any) -> None:
        """Return once the object does not exist."""
        collection, _, name = path.rpartition("/")
        only = {"fieldSelector": f"metadata.name={name}"}
        self.wait_for(collection, lambda all_: not all_, f"{path} is gone", **only, **options)

    def in_parallel(self, action: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Do `action` to each item with several connections; returns the answers in order."""
        with ThreadPoolExecutor(HANDS) as hands:
            return list(hands.map(action, items))

    def _follow(
        self,
        path: str,
        since: str,
        names: dict[str, Object],
        right: Callable[[dict[str, Object]], bool],
        parameters: Mapping[str, str],
    ) -> bool:
        """Apply what the server tells until it is right (True) or the stream ends (False).

        All that has arrived is applied before `right` is asked: it may look at thousands.
        """
        try:
            with self._stream(path, since, parameters) as stream:
                for batch in stream.batches():
                    if not _apply_all(path, batch, names):
                        return False
                    if right(names):
                        return True
        except (OSError, http.client.HTTPException, ApiError):
            time.sleep(RETRY_PAUSE_S)
        return False

    def _stream(self, path: str, since: str, parameters: Mapping[str, str]) -> Stream:
        query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": "20", **parameters}
        stream = Stream(self._connect(), f"{path}?{urlencode(query)}", self._headers())
        if stream.refused:
            with stream:
                raise ApiError(stream.refused[0], _decoded(stream.refused[1]), f"watch {path}")
        return stream

    def _apply(self, one: Object) -> Object:
        return self._request(
            "PATCH",
            self.path_of(one),
            one,
            content_type=type_of_patch["apply"],
            parameters={"fieldManager": FIELD_MANAGER, "force": "true"},
        )

    def _wait_for_crds(self, applied: Iterable[Object]) -> None:
        crds = [one for one in applied if one["kind"] == "CustomResourceDefinition"]
        names = {one["metadata"]["name"] for one in crds}

        def are_served(there: dict[str, Object]) -> bool:
            return all(_is_served(there.get(name, {})) for name in names)

        collection = self.path_of(crds[0]).rpartition("/")[0]
        self.wait_for(collection, are_served, f"{', '.join(sorted(names))} are served")
        self._plurals.clear()

    def _plural(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._plurals:
            for row in self.get(_root(version))["resources"]:
                if "/" not in row["name"]:
                    self._plurals[version, row["kind"]] = (row["name"], row["namespaced"])
        return self._plurals[version, kind]

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        parameters: Mapping[str, str] | None = None,
    ) -> Object:
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers(), "Content-Type": content_type}
        for _ in range(RETRIES):
            status, text = self._exchange(method, target, data, headers)
            if status not in RETRIED or DISRUPTION in text:
                break
            time.sleep(RETRY_PAUSE_S)  # too busy, or being started anew by a test
        if status >= 400:
            raise ApiError(status, _decoded(text), f"{method} {path}")
        return _decoded(text)

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            with self._connection() as connection:
                connection.request(method, target, data, dict(headers))
                answer = connection.getresponse()
                return answer.status, answer.read()
        except (ConnectionError, ssl.SSLEOFError) as error:  # cut by a server that was killed
            return 503, str(error).encode()

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPSConnection]:
        """Give a connection for one request; one that broke is never used again."""
        connection = self._taken() or self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append((connection, time.monotonic()))

    def _taken(self) -> http.client.HTTPSConnection | None:
        while self._idle:
            connection, since = self._idle.pop()
            if time.monotonic() - since < QUIET_S:
                return connection
            connection.close()
        return None

    def _connect(self) -> http.client.HTTPSConnection:
        server = urlsplit(self.login.server)
        return http.client.HTTPSConnection(
            server.hostname or "", server.port, context=self._trust, timeout=FAIL_SAFE_S
        )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.login.token}", "Accept": "application/json"}


def _objects(source: Path | Object | Iterable[Object]) -> list[Object]:
    if isinstance(source, dict):
        return [source]
    if not isinstance(source, Path):
        return list(source)
    files = sorted(source.rglob("*.yaml")) if source.is_dir() else [source]
    return [one for file in files for one in documents(file)]


def documents(file: Path) -> list[Object]:
    """Return the objects in a YAML file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # CRDs are long: ten times as fast
    return [one for one in yaml.load_all(file.read_text(), loader) if one]


def _unless_missing(action: Callable[[], Object]) -> Object | None:
    try:
        return action()
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _name(path: str, one: Object) -> str:
    meta = one["metadata"]
    alone = "/namespaces/" in path or "namespace" not in meta
    return str(meta["name"]) if alone else f"{meta['namespace']}/{meta['name']}"


def _apply_all(path: str, batch: Iterable[Event], names: dict[str, Object]) -> bool:
    """Bring `names` up to date; False when the stream said that it cannot go on."""
    for kind, one in batch:
        if kind not in {"ADDED", "MODIFIED", "DELETED"}:
            return False
        if kind == "DELETED":
            names.pop(_name(path, one), None)
        else:
            names[_name(path, one)] = one
    return True


def _is_served(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _decoded(text: bytes) -> Object:
    try:
        answer = json.loads(text or b"{}")
    except ValueError:
        return {"message": text.decode(errors="replace")}
    return answer if isinstance(answer, dict) else {"message": str(answer)}


def _told(names: Mapping[str, Object]) -> str:
    return "\n".join(
        f"{name}: {json.dumps(one.get('status', {}))[:600]}" for name, one in names.items()
    )
