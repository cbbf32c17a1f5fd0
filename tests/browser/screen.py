"""JupyterLab as a person uses it, in the words of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tools.cell import Server
from tools.progress import ROOT

ARTIFACTS = Path(__file__).parent / "artifacts"
AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
FAIL_SAFE_MS = 90_000
THEMES = ("JupyterLab Light", "JupyterLab Dark")
# Finds the notebook whatever is in front (a gang's tab, say).
NOTEBOOK = (
    "[...window.jupyterapp.shell.widgets('main')].find(w => w.content && w.content.activeCell)"
)

expect.set_options(timeout=FAIL_SAFE_MS)


class Screen:
    """One page of JupyterLab."""

    def __init__(self, page: Page, server: Server) -> None:
        page.set_default_timeout(FAIL_SAFE_MS)
        self.page = page
        self._server = server

    def open(
        self, notebook: str | None = None, *, front: str = "lab/tree", is_waited_for: bool = True
    ) -> None:
        """Open JupyterLab, on a notebook if one is named; wait for its kernel unless that waits itself."""
        path = "lab" if notebook is None else f"{front}/{notebook}"
        self.page.goto(f"{self._server.url}{path}?token={self._server.token}&reset")
        self.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        if notebook is not None:
            self.page.wait_for_function(f"() => window.jupyterapp && {NOTEBOOK}")
            expect(self.page.locator(".jp-Kai-Chip")).to_be_visible()
            idle = "w.sessionContext.session?.kernel?.status === 'idle'"
            there = idle if is_waited_for else "w.sessionContext.session?.kernel"
            self.page.wait_for_function(
                f"() => {{ const w = {NOTEBOOK}; return Boolean({there}); }}"
            )
        else:
            self.page.wait_for_function(
                "() => window.jupyterapp?.commands.hasCommand('kai:open-panel')"
            )

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command of the page."""
        script = "async ([id, args]) => { await window.jupyterapp.commands.execute(id, args); }"
        return self.page.evaluate(script, [command, arguments])

    def start(self, index: int) -> None:
        """Start a cell of the notebook; do not wait for its end."""
        script = (
            f"index => {{ const w = {NOTEBOOK}; window.jupyterapp.shell.activateById(w.id);"
            " w.content.activeCellIndex = index;"
            " void window.jupyterapp.commands.execute('notebook:run-cell'); }"
        )
        self.page.evaluate(script, index)

    def run(self, index: int) -> None:
        """Run a cell of the notebook to its end."""
        self.start(index)
        self.ended(index)

    def ended(self, index: int) -> None:
        """Wait until a cell that was started has ended."""
        counted = f"index => {NOTEBOOK}.content.widgets[index].model.executionCount"
        self.page.wait_for_function(counted, arg=index)

    def cell(self, index: int) -> Locator:
        """Return a cell; JupyterLab draws only those in view."""
        return self.page.locator(f'.jp-Notebook [data-windowed-list-index="{index}"]')

    def below(self, index: int) -> Locator:
        """Return what is below a cell, scrolled to."""
        shown = f"index => {{ void {NOTEBOOK}.content.scrollToItem(index, 'smart'); }}"
        self.page.evaluate(shown, index)
        return self.cell(index).locator(".jp-OutputArea")

    def errors(self, index: int) -> list[str]:
        """Return the names of the errors below a cell."""
        names: list[str] = self.page.evaluate(
            f"index => {NOTEBOOK}.content.widgets[index].model.outputs.toJSON()"
            ".filter(o => o.output_type === 'error').map(o => o.ename)",
            index,
        )
        return names

    def source(self, index: int) -> str:
        """Return what stands in a cell."""
        source: str = self.page.evaluate(
            f"index => {NOTEBOOK}.content.widgets[index].model.sharedModel.getSource()", index
        )
        return source

    @property
    def panel(self) -> Locator:
        """The side panel, opened."""
        panel = self.page.locator("#kai-gpu-panel")
        if not panel.is_visible():
            self.execute("kai:open-panel")
        return panel

    @property
    def card(self) -> Locator:
        """The last card under a cell."""
        return self.page.locator(".jp-OutputArea .jp-Kai-Card").last

    def theme(self, name: str) -> None:
        """Change the theme and wait until it is there."""
        self.execute("apputils:change-theme", theme=name)
        light = str("Light" in name).lower()
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)

    def violations(self, *selectors: str) -> list[str]:
        """Return what axe finds in these parts, each with its element."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.add_script_tag(path=AXE)
        script = """async include => {
          const { violations } = await window.axe.run({ include });
          return violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.html} ${n.failureSummary}`));
        }"""
        found: list[str] = self.page.evaluate(script, [[selector] for selector in selectors])
        return found
