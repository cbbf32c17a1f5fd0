/** What is done to a notebook for the person: code that can be read, kept and run again, never hidden execution. */

import { type INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

const LOADS = /^\s*%(load_ext|reload_ext)\s+kai_jupyter\b/m;
const GANG = /^\s*%%gang\b/;

const lastKernels = new WeakMap<NotebookPanel, string>();

/** The kernel of a notebook, or the one that it had last: what became of that is still to be told. */
export function kernelIdOf(panel: NotebookPanel): string | null {
  const id = panel.sessionContext.session?.kernel?.id;
  if (id !== undefined) {
    lastKernels.set(panel, id);
  }
  return id ?? lastKernels.get(panel) ?? null;
}

export class Notebooks {
  constructor(private readonly _tracker: INotebookTracker | null) {}

  /** The notebook in front, or a sentence that says why there is none. */
  current(): NotebookPanel {
    const panel = this._tracker?.currentWidget ?? null;
    if (panel === null) {
      throw new Error('A GPU share goes to the kernel of a notebook. Open a notebook first.');
    }
    return panel;
  }

  /** The open notebook whose kernel has this id, if there is one. */
  ofKernel(kernelId: string | null): NotebookPanel | null {
    return (
      this._tracker?.find(panel => kernelId !== null && kernelIdOf(panel) === kernelId) ?? null
    );
  }

  /** Start the kernel of a notebook anew, which waits for its GPU again. */
  async startAgain(panel: NotebookPanel): Promise<void> {
    const spec = panel.content.model?.getMetadata('kernelspec') as { name?: string } | undefined;
    const name = spec?.name ?? panel.sessionContext.kernelPreference.name;
    if (!name) {
      throw new Error('This notebook names no kernel. Choose one with Kernel, Change Kernel.');
    }
    // The page may not have heard yet that the session went with its kernel.
    await panel.sessionContext.sessionManager.refreshRunning();
    await panel.sessionContext.changeKernel({ name });
  }

  /** Put another kernel, which runs already, in the place of the notebook's. */
  async moveTo(panel: NotebookPanel, kernelId: string): Promise<void> {
    await panel.sessionContext.changeKernel({ id: kernelId });
  }

  /** Put `code` into a new cell below the active one, and run it if asked. */
  async insert(panel: NotebookPanel, code: string, run: boolean): Promise<void> {
    const notebook = panel.content;
    const active = notebook.activeCell?.model.sharedModel;
    if (active === undefined || active.getSource().trim() !== '' || active.cell_type !== 'code') {
      NotebookActions.insertBelow(notebook);
    }
    notebook.activeCell?.model.sharedModel.setSource(this._ready(panel, code));
    if (run) {
      await NotebookActions.run(notebook, panel.sessionContext);
    }
  }

  /** Write `%%gang -n N` on top of the active cell; return what stands there. */
  makeGang(panel: NotebookPanel, workers: number): string {
    const cell = panel.content.activeCell?.model;
    if (cell === undefined || cell.type !== 'code') {
      throw new Error('Only a code cell can run on several workers. Choose one first.');
    }
    const source = cell.sharedModel.getSource();
    if (!GANG.test(source)) {
      cell.sharedModel.setSource(`%%gang -n ${workers}\n${source}`);
    }
    panel.content.mode = 'edit';
    return cell.sharedModel.getSource().split('\n')[0] ?? '';
  }

  /** Show line `line` of the cell that holds `source`; false where it is not open any more. */
  goToLine(source: string, line: number): boolean {
    let found = false;
    this._tracker?.forEach(panel => {
      const notebook = panel.content;
      const index = notebook.widgets.findIndex(cell =>
        cell.model.sharedModel.getSource().includes(source.trim())
      );
      const cell = notebook.widgets[index];
      if (found || cell === undefined) {
        return;
      }
      found = true;
      const offset = GANG.test(cell.model.sharedModel.getSource()) ? line : line - 1;
      notebook.activeCellIndex = index;
      notebook.mode = 'edit';
      cell.editor?.setCursorPosition({ line: offset, column: 0 });
    });
    return found;
  }

  private _ready(panel: NotebookPanel, code: string): string {
    const cells = panel.content.model?.cells;
    const sources =
      cells === undefined ? [] : Array.from(cells, cell => cell.sharedModel.getSource());
    const loaded = sources.some(source => LOADS.test(source));
    return loaded || !code.trimStart().startsWith('%') ? code : `%load_ext kai_jupyter\n${code}`;
  }
}
