/** Parts that only JupyterLab has; each is optional, so that Notebook 7 loses nothing else. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILauncher } from '@jupyterlab/launcher';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { COMMANDS } from '../commands';
import { IGpuModel } from '../tokens';
import { StatusItem } from '../view/statusItem';

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: '@kai/jupyter:status',
  description: 'Shows in the status bar what GPU shares are held and how many requests wait.',
  autoStart: true,
  requires: [IGpuModel],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IGpuModel,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('kai_jupyter');
    const item = new StatusItem({ model, commands: app.commands, trans });
    bar?.registerStatusItem(statusPlugin.id, { item, align: 'left', rank: 99 });
  }
};

export const launcherPlugin: JupyterFrontEndPlugin<void> = {
  id: '@kai/jupyter:launcher',
  description: 'Adds "Show GPU Shares" to the launcher.',
  autoStart: true,
  requires: [IGpuModel],
  optional: [ILauncher, ITranslator],
  activate: (
    _app: JupyterFrontEnd,
    _model: IGpuModel,
    launcher: ILauncher | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('kai_jupyter');
    launcher?.add({ command: COMMANDS.openPanel, category: trans.__('Other'), rank: 90 });
  }
};
