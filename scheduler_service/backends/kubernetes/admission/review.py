"""An admission request as the API server sends it, and the answer it gets. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler_service.errors import RequestError

Object = Mapping[str, Any]
Patch = Mapping[str, Any]

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
NOTHING: Object = {}


class _Kind(msgspec.Struct, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""


class _User(msgspec.Struct, gc=False):
    username: str = ""
    groups: list[str] = msgspec.field(default_factory=list)


class _Request(msgspec.Struct, gc=False, rename="camel"):
    uid: str
    operation: str
    kind: _Kind = msgspec.field(default_factory=_Kind)
    name: str = ""
    namespace: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(msgspec.Struct, gc=False):
    request: _Request


@dataclass(frozen=True, slots=True)
class Request:
    """Who wants to do what to which object; `object` is empty for a deletion, `old` for a creation."""

    uid: str = ""
    operation: str = CREATE
    kind: str = "Pod"
    name: str = ""
    namespace: str = ""
    user: str = ""
    groups: frozenset[str] = frozenset()
    object: Object = field(default_factory=dict)
    old: Object = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether the object is being created."""
        return self.operation == CREATE

    @property
    def subject(self) -> Object:
        """The object that is meant, also when it is being deleted."""
        return self.object or self.old


@dataclass(frozen=True, slots=True)
class Answer:
    """Allowed, unless there are refusals; warnings reach the user's terminal either way."""

    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Patch, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.refusals

    def __add__(self, other: Answer) -> Answer:
        """Return both answers as one; a sentence that both give stands once."""
        return Answer(
            tuple(dict.fromkeys(self.refusals + other.refusals)),
            tuple(dict.fromkeys(self.warnings + other.warnings)),
            self.patch + other.patch,
        )


ALLOWED = Answer()
_decode = msgspec.json.Decoder(_Review).decode
_encode = msgspec.json.Encoder().encode


def read(body: bytes) -> Request:
    """Return the request inside an AdmissionReview."""
    try:
        told = _decode(body).request
    except msgspec.MsgspecError as error:
        raise RequestError(
            "This is not an AdmissionReview.", why=f"{error}.", status=400, code="not_a_review"
        ) from None
    return Request(
        uid=told.uid,
        operation=told.operation,
        kind=told.kind.kind,
        name=told.name,
        namespace=told.namespace,
        user=told.user_info.username,
        groups=frozenset(told.user_info.groups),
        object=told.object or {},
        old=told.old_object or {},
    )


def written(request: Request, answer: Answer) -> bytes:
    """Return the AdmissionReview that carries an answer."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": answer.is_allowed}
    if answer.refusals:
        response["status"] = {
            "code": 403,
            "reason": "Forbidden",
            "message": " ".join(answer.refusals),
        }
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode(answer.patch)).decode("ascii")
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    return _encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


# -- reading any object ------------------------------------------------------------------------


def mapping(of: Object, *path: str) -> Object:
    """Return the mapping at a path; an empty one where there is none."""
    here: Any = of
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return here if isinstance(here, Mapping) else NOTHING


def items(of: Object, *path: str) -> list[Object]:
    """Return the mappings of the list at a path; none where there is no list."""
    found = mapping(of, *path[:-1]).get(path[-1])
    if not isinstance(found, list):
        return []
    return [item for item in found if isinstance(item, Mapping)]


def text(of: Object, *path: str) -> str:
    """Return the text at a path; "" where there is none."""
    found = mapping(of, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def labels_of(of: Object) -> Object:
    """Return the labels of an object."""
    return mapping(of, "metadata", "labels")


def annotations_of(of: Object) -> Object:
    """Return the annotations of an object."""
    return mapping(of, "metadata", "annotations")
