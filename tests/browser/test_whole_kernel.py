"""A notebook whose kernel sits on a GPU: it waits with a banner, keeps its cells, may start without, may lose it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LIVE, Lab, Pictures
from tests.browser.screen import THEMES, Screen

pytestmark = [pytest.mark.browser, pytest.mark.process, pytest.mark.slow]

DEVICES = "import os; print('devices:', os.environ.get('KAI_GPU_DEVICES'))"
BANNER = ".jp-Kai-Banner"


def test_a_kernel_waits_with_its_cells_and_starts_when_the_gpu_comes(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    lab.fill()
    path = lab.notebook("queued.ipynb", DEVICES, "6 * 7", kernel_name="kai-gpu")
    screen.open(path, is_waited_for=False)
    banner = screen.page.locator(BANNER)
    expect(banner).to_contain_text("Position 1 of 1")
    expect(banner.get_by_role("button", name="Start on CPU instead")).to_be_visible()
    screen.open(path, is_waited_for=False)  # the page was closed; the place is kept
    expect(banner).to_contain_text("Position 1 of 1")
    live = [group for group in lab.groups() if group["state"] in LIVE]
    assert [group["state"] for group in live if group["kind"] == "kernel"] == ["Waiting"]
    screen.start(0)
    screen.start(1)
    expect(screen.page.locator(".jp-InputPrompt").nth(1)).to_contain_text("*")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"kernel-queued-{theme.split()[-1].lower()}")
        assert screen.violations(BANNER) == []
    lab.free_one()
    screen.ended(1)
    expect(screen.below(0)).to_contain_text("GPU-sim-")
    expect(banner).to_be_hidden()
    expect(screen.page.locator(".Toastify__toast")).to_have_count(1)  # granted, told once
    keep("kernel-granted")


def test_a_kernel_that_waits_starts_on_the_cpu_instead(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    lab.fill()
    path = lab.notebook("on-cpu.ipynb", DEVICES, kernel_name="kai-gpu")
    screen.open(path, is_waited_for=False)
    banner = screen.page.locator(BANNER)
    expect(banner).to_contain_text("Position 1 of 1")
    screen.start(0)
    banner.get_by_role("button", name="Start on CPU instead").click()
    screen.ended(0)
    expect(screen.below(0)).to_contain_text("devices: None")
    expect(banner).to_be_hidden()
    keep("kernel-on-cpu")


def test_a_kernel_that_loses_its_gpu_tells_and_asks_again(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    path = lab.notebook("taken.ipynb", "x = 1", "x", kernel_name="kai-spare")
    screen.open(path)
    screen.run(0)
    kept = ("--priority", "120", "--not-preemptible", "--run-time", "10m")
    lab.kai("submit", "-d", "--gpu", "2", *kept, "--name", "first", "--", "sleep", "900")
    banner = screen.page.locator(BANNER)
    expect(banner).to_contain_text("Taken back in")
    keep("kernel-taken-back")
    expect(banner).to_contain_text("Variables are gone; files are safe.")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"kernel-lost-{theme.split()[-1].lower()}")
        assert screen.violations(BANNER) == []
    banner.get_by_role("button", name="Ask again").click()
    expect(banner).to_contain_text("Position 1 of 1")
    screen.start(1)
    lab.kai("cancel", "first")
    screen.ended(1)
    assert screen.errors(1) == ["NameError"]
    keep("kernel-asked-again")


def test_a_notebook_moves_to_a_gpu_kernel_once_it_knows_what_it_loses(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    load = "%load_ext kai_jupyter"
    screen.open(lab.notebook("move.ipynb", load, "x = 1\n%gpu 0.25", "%gpu --move", DEVICES))
    for index in range(3):
        screen.run(index)
    told = screen.below(2)
    expect(told).to_contain_text("Lost: 1 variable (x).")
    expect(told).to_contain_text("0.25 GPU")
    for theme in THEMES:
        screen.theme(theme)
        keep(f"move-{theme.split()[-1].lower()}")
        assert screen.violations('.jp-Notebook [data-windowed-list-index="2"] .jp-Kai-Card') == []
    told.get_by_role("button", name="Move to Python on GPU").click()
    expect(screen.page.locator(".jp-Toolbar-kernelName")).to_contain_text("Python on GPU")
    screen.run(3)
    expect(screen.below(3)).to_contain_text("GPU-sim-")
    assert [g["kind"] for g in lab.groups() if g["state"] == "Running"] == ["kernel"]
    keep("moved")


def test_what_can_never_be_is_said_in_lab_s_own_dialog(
    screen: Screen, lab: Lab, keep: Pictures
) -> None:
    screen.open(lab.notebook("huge.ipynb", "1", kernel_name="kai-huge"), is_waited_for=False)
    dialog = screen.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Error Starting Kernel")
    expect(dialog).to_contain_text("largest node has 2 GPUs, you asked for 64 on one node")
    expect(dialog).to_contain_text("Ask for less.")
    keep("kernel-refused")
