"""Run a signed Python payload in a pod: a cell or a function goes in, values or the failure with its line come out.

`python -m scheduler_service.runner.worker <pod folder>`. Rule: nothing is unpickled before its signature and digest
are checked against the key of the person whose pod this is.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import linecache
import os
import reprlib
import sys
import traceback
import types
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from scheduler_service.runner import files
from scheduler_service.wire.codec import decode
from scheduler_service.wire.pod_group import ResultItem
from scheduler_service.wire.runner import Failure, StartOrder
from scheduler_service.wire.signing import KeyFileExposed, is_signed_work, load_key, sign_result
from scheduler_service.wire.torch_cap import cap_torch

REFUSED = 3
"""Exit code for work that was never begun."""
_TEXT_WIDTH = 60


class Refused(Exception):
    """The payload is not run; the text says why and what to do."""


class Source(NamedTuple):
    """The lines that a person wrote, under the name that tracebacks use."""

    text: str
    filename: str
    first_line: int = 1


def main(argv: list[str]) -> int:
    """Run the payload of the pod folder `argv[1]`; return the exit code."""
    pod = Path(argv[1]).absolute()
    try:
        order = _order_of(pod)
        key = _key()
        body = _verified(pod, order, key)
    except Refused as refusal:
        _tell_failure(pod, Failure(message=str(refusal), traceback=""))
        return REFUSED
    cap_torch()
    return _run(pod, order, key, body)


def _order_of(pod: Path) -> StartOrder:
    order = files.read_json(pod / files.ORDER)
    if order is None:
        raise Refused(f"The order of this pod is missing in {pod}. Submit the work again.")
    return decode(StartOrder, order)


def _key() -> bytes:
    path = os.environ.get("KAI_SIGNING_KEY_FILE", "")
    try:
        return load_key(Path(path))
    except (OSError, KeyFileExposed) as error:
        raise Refused(f"The signing key cannot be used: {error}") from error


def _verified(pod: Path, order: StartOrder, key: bytes) -> dict[str, Any]:
    work = order.work
    if work is None or not is_signed_work(key, work, order.signature):
        raise Refused(
            "This work is not signed with your key, so it is not run. Submit it again from your own notebook or shell."
        )
    payload = (pod / files.PAYLOAD).read_bytes()
    if hashlib.sha256(payload).hexdigest() != work.payload_sha256:
        raise Refused("The payload is not the one that was signed. Submit it again.")
    import cloudpickle

    sys.path[:0] = [entry for entry in (str(Path.cwd()), "") if entry not in sys.path]
    try:
        body = cloudpickle.loads(payload)
    except Exception as error:  # a stranger's __setstate__ or a module that is missing here
        raise Refused(
            f"The variables cannot be unpacked in the worker: {type(error).__name__}: {error}. "
            "A module that the notebook imports may not be importable here."
        ) from error
    sys.path.extend(entry for entry in body.get("path", ()) if entry not in sys.path)
    return dict(body)


def _run(pod: Path, order: StartOrder, key: bytes, body: dict[str, Any]) -> int:
    source = Source(body["source"], body["filename"], body.get("first_line", 1))
    remember(source)
    try:
        values = _values_of_cell(body) if body["kind"] == "cell" else value_of_call(body)
        _keep_result(pod, order, key, values)
    except SystemExit as leaving:
        return _exit_code(leaving)
    except Refused as refusal:
        _tell_failure(pod, Failure(message=str(refusal), traceback="", source=source.text))
        return 1
    except Exception as error:  # noqa: BLE001 - whatever the person's code raises is told to them
        _tell_failure(pod, failure_of(error, source))
        return 1
    return 0


def remember(source: Source) -> None:
    """Let tracebacks show the person's own lines."""
    padded = "\n" * (source.first_line - 1) + source.text
    lines = padded.splitlines(keepends=True)
    linecache.cache[source.filename] = (len(padded), None, lines, source.filename)


def _values_of_cell(body: dict[str, Any]) -> dict[str, Any]:
    module = types.ModuleType(
        "__main__"
    )  # what the cell defines is pickled by value, as in the notebook
    sys.modules["__main__"] = module
    names = module.__dict__
    exec(compile(body["imports"], "<imports of the notebook>", "exec"), names)  # noqa: S102
    names.update(body["variables"])
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(body["source"], body["filename"], "exec", flags=flags, dont_inherit=True)
    awaitable = eval(code, names)  # noqa: S307 - the person's own signed cell
    if inspect.iscoroutine(awaitable):
        asyncio.run(awaitable)
    missing = [name for name in body["out"] if name not in names]
    if missing:
        raise Refused(
            f"The cell ended without setting '{missing[0]}', which --out names. Set it on every path, or leave it out."
        )
    return {name: names[name] for name in body["out"]}


def value_of_call(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the function gives that a payload calls."""
    function = body["function"]
    inner = inspect.unwrap(function)
    if isinstance(inner, types.FunctionType):
        inner.__code__ = _named(inner.__code__, body["filename"])
    value = function(*body["args"], **body["kwargs"])
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    return {"value": value}


def _named(code: types.CodeType, filename: str) -> types.CodeType:
    """Return `code` under its file's name again, which cloudpickle takes away."""
    inner = tuple(
        _named(part, filename) if isinstance(part, types.CodeType) else part
        for part in code.co_consts
    )
    return code.replace(co_filename=filename, co_consts=inner)


def _keep_result(pod: Path, order: StartOrder, key: bytes, values: dict[str, Any]) -> None:
    body, items = packed(values)
    write(pod / files.RESULT, body)
    signature = sign_result(key, order.incarnation, body)
    write(pod / files.RESULT_SIGNATURE, signature.encode())
    files.write_json(pod / files.RESULTS, items)


def packed(values: dict[str, Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """Return values as bytes, and what is told of them. Raises `Refused` for one that can not travel."""
    import cloudpickle

    sizes: dict[str, int] = {}
    for name, value in values.items():
        try:
            sizes[name] = len(cloudpickle.dumps(value))
        except Exception as error:  # whatever a stranger's __reduce__ raises
            raise Refused(
                f"'{name}' ({type(value).__name__}) cannot be sent back: {error}. "
                "Bring back what it holds instead, or save it to a file."
            ) from error
    whole = {"values": values} if "value" not in values else {"values": values, **values}
    items = [
        asdict(ResultItem(name=name, text=described(value), size=sizes[name]))
        for name, value in values.items()
        if not (name == "value" and value is None)
    ]
    return cloudpickle.dumps(whole), items


def described(value: object) -> str:
    """Return a value in a few words: "float 0.2143", "ndarray (64, 10) float64"."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{kind} {shape} {getattr(value, 'dtype', '')}".strip()
    short = reprlib.Repr()
    short.maxstring = short.maxother = _TEXT_WIDTH
    try:
        text = short.repr(value)
    except Exception:  # noqa: BLE001 - a stranger's __repr__
        return kind
    return text if kind in text or len(text) > _TEXT_WIDTH else f"{kind} {text}"


def failure_of(error: BaseException, source: Source) -> Failure:
    """Return the failure with the frames of the person's code and its line in the text they sent, from 1."""
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list(
        [frame for frame in told.stack if frame.filename != __file__]
    )
    line = next(
        (f.lineno for f in reversed(told.stack) if f.filename == source.filename and f.lineno), None
    )
    if line is None and isinstance(error, SyntaxError) and error.filename == source.filename:
        line = error.lineno
    return Failure(
        message="".join(told.format_exception_only()).strip(),
        traceback="".join(told.format()),
        cell_line=None if line is None else line - source.first_line + 1,
        source=source.text or None,
    )


def _tell_failure(pod: Path, failure: Failure) -> None:
    print(failure.traceback or failure.message, file=sys.stderr)  # noqa: T201 - the pod's own log
    files.write_json(pod / files.FAILURE, asdict(failure))


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    print(leaving.code, file=sys.stderr)  # noqa: T201 - as Python itself does
    return 1


def write(path: Path, body: bytes) -> None:
    """Write `body` so that a reader sees all of it or nothing, mode 0600."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
    temporary.replace(path)


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stdout.flush()
    sys.exit(code)
