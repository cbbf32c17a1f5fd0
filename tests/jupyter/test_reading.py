"""Which names a cell needs from the notebook."""

import pytest

from kai_jupyter.errors import CaptureError
from kai_jupyter.reading import read

CASES = [
    ("y = x + 1", ["x"], ["y"]),
    ("x = x + 1", ["x"], ["x"]),
    ("x += 1", ["x"], ["x"]),
    ("x = 1\nprint(x)", [], ["x"]),
    ("for i in data:\n    loss = i * scale\nprint(loss, i)", ["data", "scale"], ["i", "loss"]),
    ("def f(a):\n    return a + b + helper()", ["b", "helper"], ["f"]),
    ("def f():\n    return later\nlater = 3\nf()", [], ["f", "later"]),
    ("g = lambda a: a * factor", ["factor"], ["g"]),
    ("s = [row * k for row in rows if row]", ["k", "rows"], ["s"]),
    ("s = {k: v for k, v in pairs}", ["pairs"], ["s"]),
    ("import numpy as np\na = np.zeros(n)", ["n"], ["a", "np"]),
    ("a = np.zeros(3)", ["np"], ["a"]),
    ("with open(path) as file:\n    text = file.read()", ["path"], ["file", "text"]),
    ("if flag:\n    mode = 1\nprint(mode)", ["flag", "mode"], ["mode"]),
    ("if flag:\n    mode = 1\nelse:\n    mode = 2\nprint(mode)", ["flag"], ["mode"]),
    (
        "class Net(Base):\n    width = wide\n    def run(self):\n        return late",
        ["Base", "late", "wide"],
        ["Net"],
    ),
    ("def f():\n    global total\n    total = total + 1", ["total"], ["f"]),
    ("if (n := len(xs)) > 2:\n    print(n)", ["xs"], ["n"]),
    ("try:\n    run()\nexcept Oops as e:\n    print(e)", ["Oops", "run"], ["e"]),
    ("value = await fetch(url)", ["fetch", "url"], ["value"]),
    ("del model", ["model"], []),
    ("match shape:\n    case [a, *rest]:\n        print(a, rest)", ["shape"], ["a", "rest"]),
    (
        "def f(a=default, *, b: Kind = other) -> Out:\n    pass",
        ["Kind", "Out", "default", "other"],
        ["f"],
    ),
    ("x: int\nprint(x)", ["x"], []),
    ("print(f'{loss:.3f}')", ["loss"], []),
]


@pytest.mark.parametrize(("source", "needs", "sets"), CASES)
def test_what_a_cell_needs_and_sets(source, needs, sets):
    reading = read(source)

    assert list(reading.needs) == needs
    assert set(sets) <= set(reading.sets)


def test_a_notebook_command_in_the_cell_is_told_as_such():
    with pytest.raises(CaptureError) as told:
        read("x = 1\n%timeit x")

    assert "Line 2 of the cell, `%timeit x`, is a notebook command" in str(told.value)


def test_a_syntax_error_names_its_line():
    with pytest.raises(CaptureError) as told:
        read("x = 1\ny = = 2")

    assert "Line 2 of the cell is not valid Python" in str(told.value)
