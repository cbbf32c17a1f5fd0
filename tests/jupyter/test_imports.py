"""What starting a kernel pays for: almost nothing of ours."""

import subprocess
import sys

import pytest

HEAVY = {
    "httpx",
    "anywidget",
    "ipywidgets",
    "cloudpickle",
    "numpy",
    "fastapi",
    "msgspec",
    "rich",
    "tornado",
}


def imported(code):
    """Return the modules that are loaded after `code`, as far as they are new to IPython."""
    before = "import sys, IPython.core.interactiveshell as i; before = set(sys.modules)"
    program = f"{before}\n{code}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {
        name.split(".")[0] if name.split(".")[0] != "kai_jupyter" else name
        for name in done.stdout.split()
    }


def test_importing_the_package_imports_nothing_else():
    ours = {
        name
        for name in imported("import kai_jupyter")
        if name.startswith(("kai_jupyter", "scheduler_service"))
    }

    assert ours == {"kai_jupyter", "kai_jupyter._version"}


def test_loading_the_magics_imports_nothing_heavy():
    loaded = imported(
        "shell = i.InteractiveShell.instance(); shell.run_line_magic('load_ext', 'kai_jupyter')"
    )

    assert loaded & HEAVY == set()
    assert "kai_jupyter.client" not in loaded
    assert "kai_jupyter.session" not in loaded


@pytest.mark.parametrize("name", ["gang", "gpu", "report"])
def test_the_public_names_are_functions(name):
    import kai_jupyter

    assert callable(getattr(kai_jupyter, name))


def test_an_unknown_name_is_an_attribute_error():
    import kai_jupyter

    with pytest.raises(AttributeError, match="nonsense"):
        _ = kai_jupyter.nonsense
