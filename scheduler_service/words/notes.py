"""Notes that the service puts on a request and that a front end looks for. Pure."""

from __future__ import annotations


def key_taken(name: str) -> str:
    """Return what is said where a key comes again with another request than the one it made."""
    return f"This key belongs to {name}; the new request was not made. Use another key to make it."
