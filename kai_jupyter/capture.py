"""What goes to the workers of a gang: the cell or function, the imports and the variables it reads, as signed bytes.

Variables travel by cloudpickle, up to a limit that is told with the names of the biggest ones. What cannot travel is
named, with what to do instead.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kai_jupyter.errors import CaptureError
from kai_jupyter.reading import Reading, parse, read

MIB = 1 << 20
DEFAULT_LIMIT_MIB = 64
_CELL_ONLY = ("In", "Out", "exit", "quit", "get_ipython", "_", "__", "___", "display")
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Bytes for the workers, and the names of what is in them."""

    payload: bytes
    variables: tuple[str, ...]
    modules: tuple[str, ...]
    out: tuple[str, ...]


def limit_bytes() -> int:
    """Return how much may travel: `KAI_PAYLOAD_LIMIT_MIB`, else 64 MiB."""
    text = os.environ.get("KAI_PAYLOAD_LIMIT_MIB", str(DEFAULT_LIMIT_MIB))
    try:
        return int(text) * MIB
    except ValueError:
        raise CaptureError(
            f"KAI_PAYLOAD_LIMIT_MIB: '{text}' is not a whole number. Write one from 0 on, like 64."
        ) from None


def capture_cell(
    source: str,
    namespace: Mapping[str, Any],
    *,
    send: Iterable[str] | None = None,
    out: Iterable[str] = (),
    filename: str = "<cell>",
    limit: int | None = None,
) -> Captured:
    """Return the cell ready to travel with the variables it reads; `send` (`--in`) names them instead.

    Raises `CaptureError` that names what cannot travel.
    """
    parse(source, filename)
    reading = read(source)
    names = _names_to_send(reading, namespace, send)
    modules = {n: namespace[n] for n in names if isinstance(namespace[n], types.ModuleType)}
    variables = {n: namespace[n] for n in names if n not in modules}
    wanted = tuple(out)
    _check_out(wanted, reading)
    body = {
        "kind": "cell",
        "source": source,
        "filename": filename,
        "imports": "\n".join(_import_line(name, module) for name, module in modules.items()),
        "variables": variables,
        "out": list(wanted),
        "path": _search_path(),
    }
    return Captured(
        payload=_dumped(body, variables, limit or limit_bytes()),
        variables=tuple(variables),
        modules=tuple(modules),
        out=wanted,
    )


def capture_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    limit: int | None = None,
) -> Captured:
    """Return a call ready to travel: the function by value, its arguments and the globals it reads."""
    parts = {
        function.__name__: function,
        **{f"argument {place + 1}": value for place, value in enumerate(args)},
        **kwargs,
    }
    source, first_line, filename = _source_of(function)
    body = {
        "kind": "function",
        "function": function,
        "args": args,
        "kwargs": dict(kwargs),
        "source": source,
        "first_line": first_line,
        "filename": filename,
        "path": _search_path(),
    }
    payload = _dumped(body, parts, limit or limit_bytes())
    return Captured(payload=payload, variables=tuple(parts), modules=(), out=("value",))


def names_read(source: str, namespace: Mapping[str, Any]) -> list[str]:
    """Return the variables of the notebook that a cell reads, modules left out."""
    parse(source, "<cell>")
    found = _names_to_send(read(source), namespace, None)
    return [name for name in found if not isinstance(namespace[name], types.ModuleType)]


def _names_to_send(
    reading: Reading, namespace: Mapping[str, Any], send: Iterable[str] | None
) -> list[str]:
    needed = [n for n in reading.needs if n in namespace and n not in _CELL_ONLY]
    if send is None:
        return needed
    named = list(dict.fromkeys(send))
    for name in named:
        if name not in namespace:
            raise CaptureError(
                f"There is no variable '{name}' in this notebook to send. "
                "Run the cell that sets it, or take it out of --in."
            )
    modules = [n for n in needed if isinstance(namespace[n], types.ModuleType)]
    return list(dict.fromkeys([*named, *modules]))


def _check_out(out: tuple[str, ...], reading: Reading) -> None:
    for name in out:
        if not name.isidentifier():
            raise CaptureError(f"--out takes names of variables; '{name}' is not one.")
        if name not in reading.sets and name not in reading.needs:
            raise CaptureError(
                f"The cell never sets '{name}', so --out {name} would bring nothing back. "
                f"It sets: {_some(reading.sets)}."
            )


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown or "nothing"


def _import_line(name: str, module: types.ModuleType) -> str:
    path = module.__name__
    if path == name:
        return f"import {name}"
    package, _, last = path.rpartition(".")
    if package and last == name:
        return f"from {package} import {name}"
    return f"import {path} as {name}"


def _search_path() -> list[str]:
    """Return the folders in which this notebook finds modules, so that workers find the same."""
    return [entry for entry in sys.path if entry]


def _source_of(function: Callable[..., Any]) -> tuple[str, int, str]:
    """Return its lines, where they begin, and the name that tracebacks give the file."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return "", 1, ""
    with contextlib.suppress(OSError, TypeError):
        lines, first_line = inspect.getsourcelines(code)
        return textwrap.dedent("".join(lines)), first_line, code.co_filename
    return "", code.co_firstlineno, code.co_filename


class _TooLarge(Exception):
    """More bytes than may travel were written."""


class _LimitedBuffer(io.BytesIO):
    """Keeps bytes up to a limit, so that nobody waits for gigabytes to be copied before being told."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self._limit:
            raise _TooLarge
        return super().write(data)


class _Counter(io.RawIOBase):
    """Counts bytes and keeps none."""

    size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written = memoryview(data).nbytes
        self.size += written
        return written


def _dumped(body: Mapping[str, Any], variables: Mapping[str, Any], limit: int) -> bytes:
    import cloudpickle

    for name, value in variables.items():
        _refuse_bound_to_process(name, value)
    buffer = _LimitedBuffer(limit)
    try:
        cloudpickle.Pickler(buffer, protocol=5).dump(body)
    except _TooLarge:
        raise CaptureError(_too_large(variables, limit)) from None
    except Exception as error:
        raise CaptureError(_unpicklable(variables, error)) from error
    return buffer.getvalue()


def _refuse_bound_to_process(name: str, value: Any) -> None:
    import socket

    if isinstance(value, io.IOBase):
        raise CaptureError(
            f"'{name}' is an open file, which belongs to this process. Send its path instead and open it in the cell."
        )
    if isinstance(value, socket.socket):
        raise CaptureError(
            f"'{name}' is an open socket, which belongs to this process. "
            "Send the address instead and connect in the cell."
        )
    if type(value).__module__.split(".")[0] == "torch" and getattr(value, "is_cuda", False) is True:
        raise CaptureError(
            f"'{name}' rests in the memory of this notebook's GPU. Send a copy: `{name} = {name}.cpu()`."
        )


def _size_of(value: Any) -> int | None:
    import cloudpickle

    counter = _Counter()
    try:
        cloudpickle.Pickler(counter, protocol=5).dump(value)
    except Exception:  # noqa: BLE001 - whatever a stranger's __reduce__ raises
        return None
    return counter.size


def _too_large(variables: Mapping[str, Any], limit: int) -> str:
    sizes = {name: _size_of(value) or 0 for name, value in variables.items()}
    biggest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:3]
    told = ", ".join(f"{name} ({size_text(size)})" for name, size in biggest)
    return (
        f"The cell reads {size_text(sum(sizes.values()))} of variables; at most {size_text(limit)} travel. "
        f"The biggest: {told}. Save {biggest[0][0]} to a file and read it in the cell, or name what to send with --in."
    )


def _unpicklable(variables: Mapping[str, Any], error: Exception) -> str:
    for name, value in variables.items():
        if _size_of(value) is None:
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            return (
                f"'{name}' ({kind}) cannot be sent to workers: {_first_line(error)}. "
                f"Make it in the cell instead, or leave it out with --in."
            )
    return f"The cell cannot be sent to workers: {_first_line(error)}."


def _first_line(error: Exception) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0]
    return text.rstrip(".")


def size_text(size: int) -> str:
    """Return a size in words: "412 MiB", "1.1 GiB", "2 KiB"."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":  # noqa: PLR2004 - a kibi
            break
        value /= 1024
    return f"{value:.1f} {unit}" if unit == "GiB" else f"{value:.0f} {unit}"
