"""A Kubernetes object as the API gives it, with reads that refuse a wrong shape by a sentence.

Nothing here knows a kind. A value that is absent is None, "" or empty; one of the wrong type is a
`CannotGroup`, never a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.errors import RequestError

Raw = Mapping[str, Any]


class CannotGroup(RequestError):
    """The workload as it is written does not say how its pods belong together."""


class Kind(msgspec.Struct, frozen=True, order=True):
    """A kind of object, whatever version it is served in."""

    group: str
    name: str

    def __str__(self) -> str:
        """Return it as KAI writes it: `Kind.group`, for the core group `Kind`."""
        return f"{self.name}.{self.group}" if self.group else self.name


POD = Kind("", "Pod")


class Object(msgspec.Struct, frozen=True):
    """One object, read by paths."""

    raw: Raw

    @property
    def api_version(self) -> str:
        """Its group and version as written; a pod from a list has none."""
        return self.text("apiVersion") or "v1"

    @property
    def kind(self) -> Kind:
        """Its kind; what a list gives without one is a pod."""
        group, slash, _ = self.api_version.rpartition("/")
        return Kind(group if slash else "", self.text("kind") or "Pod")

    @property
    def name(self) -> str:
        """Its name."""
        return self.text("metadata", "name")

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.text("metadata", "namespace")

    @property
    def uid(self) -> str:
        """Its identity, other than that of a later object of the same name."""
        return self.text("metadata", "uid")

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.words("metadata", "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.words("metadata", "annotations")

    @property
    def is_deleted(self) -> bool:
        """Whether its deletion has begun."""
        return bool(self.text("metadata", "deletionTimestamp"))

    def __str__(self) -> str:
        """Return how sentences name it, also one whose own name is of a wrong shape."""
        namespace, name = self._word("metadata", "namespace"), self._word("metadata", "name")
        return f"{self._word('kind') or POD.name} {namespace}/{name}"

    def value(self, *path: str) -> Any:
        """Return what stands at the path, None where nothing does."""
        found: Any = self.raw
        for step in path:
            if type(found) is not dict and not isinstance(
                found, Mapping
            ):  # asked of each pod very often
                return None
            found = found.get(step)
        return found

    def text(self, *path: str) -> str:
        """Return the text at the path, "" where there is none."""
        found = self.value(*path)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise self.wrong(path, "a text")
        return found

    def number(self, *path: str) -> int | None:
        """Return the whole number of 0 or more at the path, None where there is none."""
        found = self.value(*path)
        if found is None:
            return None
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise self.wrong(path, "a whole number of 0 or more")
        return found

    def flag(self, *path: str) -> bool:
        """Tell whether the path says true."""
        return self.value(*path) is True

    def table(self, *path: str) -> Raw:
        """Return the mapping at the path, an empty one where there is none."""
        found = self.value(*path)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            raise self.wrong(path, "a mapping")
        return found

    def words(self, *path: str) -> Mapping[str, str]:
        """Return the mapping of texts at the path; values that are none are left out."""
        return {key: word for key, word in self.table(*path).items() if isinstance(word, str)}

    def entries(self, *path: str) -> tuple[Object, ...]:
        """Return the mappings of the list at the path, each to be read by paths of its own."""
        found = self.value(*path)
        if found is None:
            return ()
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            raise self.wrong(path, "a list of mappings")
        return tuple(Object(each) for each in found)

    def part(self, *path: str) -> Object:
        """Return the mapping at the path, to be read by paths of its own."""
        return Object(self.table(*path))

    def wrong(self, path: tuple[str, ...], expected: str) -> CannotGroup:
        """Return the refusal for a value of the wrong shape."""
        return self.refusal(f"{'.'.join(path)} is not {expected}.", hint="Correct it there.")

    def refusal(self, why: str, *, hint: str) -> CannotGroup:
        """Return a refusal that names this object."""
        whose = str(self) if self._word("kind") in {"", POD.name} else f"The pods of {self}"
        named = self._word("metadata", "name")
        what = f"{whose} can not be grouped." if named else "Pods can not be grouped."
        return CannotGroup(what, why=why, hint=hint, code="cannot_group")

    def _word(self, *path: str) -> str:
        found = self.value(*path)
        return found if isinstance(found, str) else ""

    def inheriting(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
        """Return it with the labels and annotations that it lacks."""
        metadata = {
            **self.table("metadata"),
            "labels": {**labels, **self.labels},
            "annotations": {**annotations, **self.annotations},
        }
        return Object({**self.raw, "metadata": metadata})


def whole(text: str) -> int | None:
    """Return the whole number of 0 or more that a label or annotation spells, None if it is none."""
    return (
        int(text) if text.isascii() and text.isdecimal() and len(text) < len(str(2**31)) else None
    )
