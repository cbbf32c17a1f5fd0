"""Opens tables of comma-separated values, plain or gzipped."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from scheduler_service.simulate.source import Located


@contextmanager
def opened(file: Path) -> Iterator[TextIO]:
    """Open a table; what can not be read is a sentence with the file's name."""
    try:
        if file.suffix == ".gz":
            with gzip.open(file, "rt", encoding="utf-8", newline="") as stream:
                yield stream
        else:
            with file.open(encoding="utf-8", newline="") as stream:
                yield stream
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise Located(file, "", f"cannot be read ({error}).") from None


def columns_of(file: Path) -> frozenset[str]:
    """Return the names in a table's first line."""
    with opened(file) as stream:
        return frozenset(stream.readline().strip().split(","))
