"""`python -m tools.mutate FILE…`: do the scenarios notice small faults in the planner?

Each mutant is put into the running planner in a child process and meets the scenarios and tables
and laws that run its line: those that caught the mutants before it, then the quickest. The first
that fails has caught it. Results are kept in `.build/mutation/`, so that a run that was stopped
goes on where it was; a function that changed is judged anew. `--quick S`: only the quickest cases,
S seconds of them; then `--survivors` lets those that nobody caught meet all cases, and with
`--tests PATH…` tests as well. `--report` only lists. `--only PREFIX…` takes some of the cases:
those written for the survivors at hand.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import inspect
import itertools
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

from scheduler_service.model.policy import Policy
from scheduler_service.planning.board import ShortWayLost
from scheduler_service.simulate import reader, run, source, tables
from tools.mutants import Mutant, code_of, mutants

ROOT: Final = Path(__file__).resolve().parent.parent
SHARED: Final = Path(os.environ.get("KAI_SHARED", ROOT.parent / "shared"))
KEPT: Final = ROOT / ".build" / "mutation"
NUMBERED: Final = "tests.properties.quick"
PLANNING: Final = "scheduler_service/planning"
CPU_S: Final = 2
"""So much, and three times what it needs, is given to a case: then the mutant does not end."""
CAUGHT, SURVIVED = 1, 0


@dataclass(slots=True)
class Case:
    """A scenario or table: what runs it, how long that took, which lines it ran, what it caught."""

    name: str
    fails: Callable[[], bool]
    seconds: float = 0.0
    lines: set[tuple[str, int]] = field(default_factory=set)
    catch: int = 0
    """The number of the last mutant it caught: neighbours are often caught by the same."""


@dataclass(frozen=True, slots=True)
class Options:
    """How much a mutant meets: seconds of cases (None: all of them), and tests."""

    quick: float | None
    tests: list[str]
    tests_s: float = 0.0
    """How long the tests take without a mutant."""


def all_cases() -> list[Case]:
    """Return the shared conformance data, our own scenarios, and laws on numbered clusters."""
    files = [
        *sorted((SHARED / "conformance").rglob("*.json")),
        *sorted((ROOT / "tests" / "scenarios").rglob("*.yaml")),
    ]
    cases: list[Case] = []
    for file in files:
        raw = source.read(file)
        if "kind" in raw:
            cases.append(Case(file.stem, partial(_has_failures, tables.failures, raw)))
        elif "run" in raw:
            scenario = reader.scenario_of(file, raw, Policy.conformance())
            cases.append(Case(file.stem, partial(_has_failures, run.failures, scenario)))
    numbered = importlib.import_module(NUMBERED).cases()
    return cases + [Case(name, fails) for name, fails in numbered]


def _has_failures(failures: Callable[[Any], list[str]], given: Any) -> bool:
    return bool(failures(given))


def observe(cases: Iterable[Case], files: set[str]) -> None:
    """Run each case once and note which lines of these files it runs."""
    for case in cases:
        lines = case.lines

        def note(frame: FrameType, event: str, _: Any, lines: Any = lines) -> Any:
            if event == "line":
                lines.add((frame.f_code.co_filename, frame.f_lineno))
            return note

        def enter(frame: FrameType, event: str, arg: Any, note: Any = note) -> Any:
            return note(frame, event, arg) if frame.f_code.co_filename in files else None

        started = time.process_time()
        sys.settrace(enter)
        try:
            failed = case.fails()
        finally:
            sys.settrace(None)
        case.seconds = time.process_time() - started
        if failed:
            raise SystemExit(f"{case.name} fails without a mutant: mend that first.")


def judge_all(
    cases: list[Case], texts: dict[Path, str], options: Options, *, survivors: bool
) -> None:
    """Judge the open mutants of files, and keep each result at once."""
    by_name = {case.name: case for case in cases}
    catches = itertools.count(1)
    gc.freeze()  # what is here stays: no child need look through it again
    for file, text in texts.items():
        for mutant in open_mutants(file, text, survivors=survivors):
            caught_by = judge(cases, file, text, mutant, options)
            keep(file, mutant, caught_by)
            if caught_by in by_name:
                by_name[caught_by].catch = next(catches)


def judge(cases: list[Case], file: Path, text: str, mutant: Mutant, options: Options) -> str:
    """Return who catches a mutant, or "" if nobody does."""
    code = code_of(text, str(file), mutant)
    function = function_of(module_of(file), mutant.owner)
    touched = quickest(touching(cases, str(file), function.__code__, mutant.line), options.quick)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = CAUGHT
        with contextlib.suppress(BaseException):  # whatever happens, the child ends here
            status = _in_child(touched, function, code, options, write)
        os._exit(status)
    os.close(write)
    with os.fdopen(read) as answer:
        caught_by = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "it does not end"
    return "" if status == 0 else caught_by or "it breaks the planner"


def touching(cases: list[Case], name: str, code: CodeType, line: int) -> list[Case]:
    """Return the cases that run a line; where a line is not seen by itself, those of its function."""
    exact = [case for case in cases if (name, line) in case.lines]
    if exact:
        return exact
    lines = {found for _, _, found in code.co_lines() if found is not None}
    last = max(lines, default=line)
    within = {(name, number) for number in range(code.co_firstlineno, last + 1)}
    return [case for case in cases if not within.isdisjoint(case.lines)]


def quickest(cases: list[Case], seconds: float | None) -> list[Case]:
    """Return cases that together take at most so long: the latest to catch, then the quickest."""
    found: list[Case] = []
    used = 0.0
    for case in sorted(cases, key=lambda case: (-case.catch, case.seconds)):
        used += case.seconds
        if seconds is not None and used > seconds:
            break
        found.append(case)
    return found


def _in_child(
    cases: list[Case], function: FunctionType, code: CodeType, options: Options, write: int
) -> int:
    """Put the fault in and run until something fails."""
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    function.__code__ = code
    warnings.simplefilter("error", ShortWayLost)  # it would be told
    for case in cases:
        signal.setitimer(signal.ITIMER_PROF, CPU_S + 3 * case.seconds)
        try:
            failed = case.fails()
        except Exception:  # noqa: BLE001 - an error is noticed too
            failed = True
        if failed:
            os.write(write, case.name.encode())
            return CAUGHT
    signal.setitimer(signal.ITIMER_PROF, CPU_S + 3 * options.tests_s if options.tests else 0)
    if options.tests and not tests_pass(options.tests):
        os.write(write, b"tests")
        return CAUGHT
    return SURVIVED


def _begins(case: Case, beginnings: list[str]) -> bool:
    return case.name.startswith(tuple(beginnings))


def _in_a_child(answers: Callable[[], bool]) -> bool:
    """Return the answer of a function that is asked in a child process."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(0 if answers() else 1)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def tests_pass(tests: list[str], *more: str) -> bool:
    """Run tests in this process, silently."""
    import pytest

    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        # Rewriting asserts would warn of modules that are here already.
        return pytest.main(["-qx", "--assert=plain", "-p", "no:cacheprovider", *more, *tests]) == 0


def module_of(file: Path) -> ModuleType:
    """Return the imported module of a file of ours."""
    return importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def function_of(module: ModuleType, owner: str) -> FunctionType:
    """Return the function whose code a mutant takes the place of."""
    found: Any = module
    for part in owner.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    function: FunctionType = inspect.unwrap(found)
    return function


def results_of(file: Path) -> dict[str, str]:
    """Return the kept results of a file: mutant key to who caught it ("" = nobody)."""
    kept = KEPT / f"{file.stem}.jsonl"
    if not kept.exists():
        return {}
    lines = kept.read_text("utf-8").splitlines()
    return {line["key"]: line["caught_by"] for line in map(json.loads, lines)}


def keep(file: Path, mutant: Mutant, caught_by: str) -> None:
    """Add one result."""
    KEPT.mkdir(parents=True, exist_ok=True)
    line = {"key": mutant.key, "line": mutant.line, "what": mutant.what, "caught_by": caught_by}
    with (KEPT / f"{file.stem}.jsonl").open("a", encoding="utf-8") as kept:
        kept.write(json.dumps(line, ensure_ascii=False) + "\n")


def open_mutants(file: Path, text: str, *, survivors: bool) -> Iterator[Mutant]:
    """Yield the mutants still to be judged; with `survivors`, those that nobody caught as well."""
    known = results_of(file)
    for mutant in mutants(text):
        if mutant.key not in known or (survivors and not known[mutant.key]):
            yield mutant


def report(files: list[Path]) -> None:
    """List what nobody caught, and the sums."""
    total: Counter[str] = Counter()
    for file in files:
        known, here = results_of(file), Counter[str]()
        for mutant in mutants(file.read_text("utf-8")):
            caught_by = known.get(mutant.key)
            here["open" if caught_by is None else "caught" if caught_by else "survived"] += 1
            if caught_by == "":
                print(f"{file.name}:{mutant.line} {mutant.owner}: {mutant.what}")
        print(f"{file.name}: {dict(here)}", flush=True)
        total += here
    print(f"all: {dict(total)}")


def main() -> None:
    """Judge the mutants of the named files (none named: the whole planner)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--tests", nargs="*", default=[], help="tests that survivors meet too")
    parser.add_argument("--quick", type=float, metavar="S", help="only S seconds of cases")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    parser.add_argument("--survivors", action="store_true", help="judge those nobody caught again")
    parser.add_argument("--report", action="store_true", help="only list what is known")
    chosen = parser.parse_args()
    files = [file.resolve() for file in chosen.files] or sorted((ROOT / PLANNING).rglob("*.py"))
    if not chosen.report:
        cases = [case for case in all_cases() if not chosen.only or _begins(case, chosen.only)]
        # Read once: somebody may write on while this runs.
        texts = {file: file.read_text("utf-8") for file in files}
        for file in files:
            module_of(file)
        observe(cases, {str(file) for file in files})
        if chosen.tests:
            os.environ["KAI_PROPERTY_PROFILE"] = "first failure"
            tests_pass(chosen.tests, "--collect-only")  # read once, not in each child
        started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        if chosen.tests and not _in_a_child(lambda: tests_pass(chosen.tests)):
            raise SystemExit("The tests fail without a mutant: mend that first.")
        tests_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - started
        options = Options(chosen.quick, chosen.tests, tests_s)
        judge_all(cases, texts, options, survivors=chosen.survivors)
    report(files)


if __name__ == "__main__":
    main()
