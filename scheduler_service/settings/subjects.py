"""Whom a line of the queue file means: everybody, one person, or a group that the system knows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

EVERYBODY = "*"
USER = "user"
GROUP = "group"


def is_meant(subject: str, user: str, groups: Collection[str]) -> bool:
    """Whether `subject` (``*``, ``user:ana``, ``group:vision``) means this person."""
    if subject == EVERYBODY:
        return True
    kind, _, name = subject.partition(":")
    return name == user if kind == USER else name in groups


def is_any_meant(subjects: Iterable[str], user: str, groups: Collection[str]) -> bool:
    """Whether one of `subjects` means this person."""
    return any(is_meant(subject, user, groups) for subject in subjects)
