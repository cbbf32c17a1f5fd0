"""The Python in which a companion runs cells, one after the other: variables stay from one to the next.

`python -m scheduler_service.runner.cells IN OUT`, two file descriptors. A line in names files: the payload, checked by
the companion, and where the values go; a line out says how it went. Ctrl-C (SIGINT) ends the cell, not this process.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import signal
import sys
import types
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from scheduler_service.runner.worker import (
    Refused,
    Source,
    failure_of,
    packed,
    remember,
    value_of_call,
    write,
)
from scheduler_service.wire.runner import Failure
from scheduler_service.wire.torch_cap import cap_torch

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Room:
    """The names that cells share, as a notebook's own module."""

    def __init__(self) -> None:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = (
            module  # what a cell defines is pickled by value, as in a notebook
        )
        self.names = module.__dict__
        self._is_busy = False
        signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, _: int, __: FrameType | None) -> None:
        if self._is_busy:
            raise KeyboardInterrupt

    def run(self, payload: Path, result: Path, began: Callable[[], None]) -> dict[str, Any]:
        """Run one payload and return what to tell of it; from `began` on it can be interrupted."""
        source = Source("", "<cell>")
        try:
            self._is_busy = True
            began()
            body = self._unpacked(payload)
            source = Source(body["source"], body["filename"], body.get("first_line", 1))
            remember(source)
            cap_torch()
            values = self._cell(body) if body["kind"] == "cell" else value_of_call(body)
            self._is_busy = False
            content, items = packed(values)
            write(result, content)
        except KeyboardInterrupt:
            return {"state": "interrupted"}
        except Refused as refusal:
            return _failed(Failure(message=str(refusal), traceback="", source=source.text))
        except BaseException as error:  # noqa: BLE001 - whatever the person's code raises is told to them
            return _failed(failure_of(error, source))
        finally:
            self._is_busy = False
        return {"state": "succeeded", "results": items}

    @staticmethod
    def _unpacked(payload: Path) -> dict[str, Any]:
        import cloudpickle

        try:
            body = dict(cloudpickle.loads(payload.read_bytes()))
        except Exception as error:  # a module that is missing here
            raise Refused(
                f"The variables cannot be unpacked in the companion: {type(error).__name__}: {error}. "
                "A module that the notebook imports may not be importable there."
            ) from error
        sys.path.extend(entry for entry in body.get("path", ()) if entry not in sys.path)
        return body

    def _cell(self, body: dict[str, Any]) -> dict[str, Any]:
        """Run a cell among the names of those before; show the value of its last line, as a notebook does."""
        names = self.names
        exec(compile(body["imports"], "<imports of the notebook>", "exec"), names)  # noqa: S102
        names.update(body["variables"])
        tree = ast.parse(body["source"], body["filename"])
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        _evaluate(compile(tree, body["filename"], "exec", flags=FLAGS, dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            shown = ast.Expression(last.value)
            code = compile(shown, body["filename"], "eval", flags=FLAGS, dont_inherit=True)
            value = _evaluate(code, names)
            if value is not None and not body["source"].rstrip().endswith(";"):
                print(repr(value))  # noqa: T201 - the value of the cell
        missing = [name for name in body["out"] if name not in names]
        if missing:
            raise Refused(
                f"The cell ended without setting '{missing[0]}', which --out names. "
                "Set it on every path, or leave it out."
            )
        return {name: names[name] for name in body["out"]}


def _evaluate(code: types.CodeType, names: dict[str, Any]) -> Any:
    value = eval(code, names)  # noqa: S307 - the person's own signed cell
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _failed(failure: Failure) -> dict[str, Any]:
    return {"state": "failed", "failure": asdict(failure)}


def main(argv: list[str]) -> int:
    """Run what comes until nothing more does."""
    orders, answers = (int(number) for number in argv[1:3])
    sys.path[:0] = [entry for entry in (str(Path.cwd()), "") if entry not in sys.path]
    room = Room()
    with os.fdopen(orders, encoding="utf-8") as lines, os.fdopen(answers, "w") as told:

        def say(answer: dict[str, Any]) -> None:
            told.write(json.dumps(answer) + "\n")
            told.flush()

        for line in lines:
            order = json.loads(line)
            files = Path(order["payload"]), Path(order["result"])
            try:
                answer = room.run(*files, began=lambda: say({"state": "running"}))
            except KeyboardInterrupt:  # a second one, while the first was heard
                answer = {"state": "interrupted"}
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            say(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
