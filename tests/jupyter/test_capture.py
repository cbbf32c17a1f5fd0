"""What travels to the workers, and what is said of what cannot."""

import json
import math
import socket
import threading

import cloudpickle
import pytest

from kai_jupyter.capture import capture_cell, capture_function, limit_bytes, size_text
from kai_jupyter.errors import CaptureError


def test_variables_that_are_read_travel_and_others_stay():
    captured = capture_cell("y = x + shift", {"x": 1, "shift": 2, "unread": object()}, out=["y"])

    body = cloudpickle.loads(captured.payload)
    assert body["variables"] == {"x": 1, "shift": 2}
    assert body["out"] == ["y"]
    assert body["source"] == "y = x + shift"


def test_modules_travel_as_import_lines():
    import os.path as ospath

    names = {"json": json, "m": math, "ospath": ospath}
    captured = capture_cell("json.dumps(m.pi); ospath", names)

    imports = cloudpickle.loads(captured.payload)["imports"].splitlines()
    assert imports[:2] == ["import json", "import math as m"]
    assert captured.variables == ()


def test_in_names_what_to_send_instead_and_modules_still_go():
    names = {"a": 1, "b": 2, "math": math}
    captured = capture_cell("math.sqrt(a + b)", names, send=["a"])

    assert captured.variables == ("a",)
    assert captured.modules == ("math",)


def test_an_unknown_name_in_in_is_told():
    with pytest.raises(CaptureError, match="no variable 'c' in this notebook"):
        capture_cell("a", {"a": 1}, send=["c"])


def test_out_of_a_name_that_the_cell_never_sets_is_told():
    with pytest.raises(CaptureError, match=r"The cell never sets 'loss'.*It sets: acc"):
        capture_cell("acc = 1", {}, out=["loss"])


def test_a_payload_over_the_limit_names_the_biggest_variables():
    names = {"train_ds": b"x" * 300_000, "cfg": {"lr": 0.1}}

    with pytest.raises(CaptureError) as told:
        capture_cell("train_ds, cfg", names, limit=100_000)

    sentence = str(told.value)
    assert "293 KiB of variables; at most 98 KiB travel" in sentence
    assert sentence.index("train_ds (293 KiB)") < sentence.index("cfg (")
    assert "Save train_ds to a file" in sentence


def test_a_limit_that_is_no_number_is_told_with_what_to_write(monkeypatch):
    monkeypatch.setenv("KAI_PAYLOAD_LIMIT_MIB", "lots")
    with pytest.raises(CaptureError, match=r"KAI_PAYLOAD_LIMIT_MIB: 'lots' is not a whole number"):
        limit_bytes()


def test_a_variable_that_cannot_be_pickled_is_named():
    with pytest.raises(CaptureError) as told:
        capture_cell("guard, fine", {"fine": 1, "guard": threading.Lock()})

    assert "'guard' (_thread.lock) cannot be sent to workers" in str(told.value)
    assert "Make it in the cell instead" in str(told.value)


def test_open_files_and_sockets_are_refused_with_the_way_round(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("x")
    with path.open() as file, pytest.raises(CaptureError, match="'file' is an open file"):
        capture_cell("file.read()", {"file": file})
    with socket.socket() as link, pytest.raises(CaptureError, match="'link' is an open socket"):
        capture_cell("link", {"link": link})


def test_a_tensor_on_the_gpu_of_the_notebook_is_refused_with_the_way_round():
    tensor = type("Tensor", (), {"is_cuda": True, "__module__": "torch"})()

    with pytest.raises(CaptureError, match=r"`weights = weights.cpu\(\)`"):
        capture_cell("weights", {"weights": tensor})


def test_a_function_travels_by_value_with_its_source():
    def double(x):
        return x * 2

    double.__module__ = "__main__"
    body = cloudpickle.loads(capture_function(double, (4,), {}).payload)

    assert body["function"](*body["args"]) == 8
    assert body["source"].startswith("def double(x):")


def test_sizes_are_told_in_words():
    assert [size_text(n) for n in (12, 2048, 412 * 2**20, 1181116006)] == [
        "12 bytes",
        "2 KiB",
        "412 MiB",
        "1.1 GiB",
    ]
