"""An event of events.k8s.io/v1: a sentence on an object that people look at. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from scheduler_service.backends.kubernetes import names

NOTE_LIMIT = 1000
NAME_LIMIT = 200
CLUSTER_WIDE = "default"
"""The namespace of events on objects that have none."""
EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class On:
    """The object that is spoken of."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def table(self) -> dict[str, str]:
        """Return it as the API writes a reference."""
        words = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: word for key, word in words.items() if word}


@dataclass(frozen=True, slots=True)
class News:
    """What is told: of whom, the reason word that programs compare, and the sentence."""

    on: On
    type: EventType
    reason: str
    note: str
    action: str
    related: On | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


def event(news: News, *, now: str, reporter: str) -> dict[str, Any]:
    """Return the object; the same news at the same moment has the same name, so that it is told once."""
    on = news.on
    told = f"{on.uid}/{on.name}/{news.reason}/{news.note}/{now}"
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    metadata: dict[str, Any] = {
        "name": f"{on.name[:NAME_LIMIT].rstrip('-.')}.{digest}",
        "namespace": on.namespace or CLUSTER_WIDE,
    }
    if news.annotations:
        metadata["annotations"] = dict(news.annotations)
    body: dict[str, Any] = {
        "apiVersion": names.EVENTS.api_version,
        "kind": names.EVENTS.kind,
        "metadata": metadata,
        "type": news.type,
        "reason": news.reason,
        "note": news.note[:NOTE_LIMIT],
        "action": news.action,
        "eventTime": now,
        "reportingController": names.SCHEDULER_NAME,
        "reportingInstance": reporter[:128],
        "regarding": on.table(),
    }
    if news.related is not None:
        body["related"] = news.related.table()
    return body
