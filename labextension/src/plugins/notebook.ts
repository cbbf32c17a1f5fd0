/** What stands at each notebook: the chip in its toolbar and the banner over its cells. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { groupOfNotebook } from '../model/state';
import { IGpuModel } from '../tokens';
import { NotebookBanner } from '../view/banner';
import { GpuChip } from '../view/chip';
import { kernelIdOf, Notebooks } from '../view/notebooks';
import { Reconnects } from '../view/reconnect';
import type { Place } from '../view/surface';
import { loadedSettings } from './settings';

function groupOfPanel(model: IGpuModel, panel: NotebookPanel): ReturnType<typeof groupOfNotebook> {
  return groupOfNotebook(model.state, kernelIdOf(panel), panel.context.path);
}

export const chipPlugin: JupyterFrontEndPlugin<void> = {
  id: '@kai/jupyter:chip',
  description: 'Shows in the notebook toolbar what GPU share the notebook holds or waits for.',
  autoStart: true,
  requires: [IGpuModel, INotebookTracker, IToolbarWidgetRegistry],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IGpuModel,
    tracker: INotebookTracker,
    toolbars: IToolbarWidgetRegistry,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('kai_jupyter');
    const place: Place = { model, commands: app.commands, trans };
    const notebooks = new Notebooks(tracker);
    toolbars.addFactory<NotebookPanel>('Notebook', 'kai-gpu', panel => {
      const chip = new GpuChip(place, {
        group: () => groupOfPanel(model, panel),
        title: () => panel.title.label,
        ask: gpu => void notebooks.insert(panel, `%gpu ${gpu}`, true)
      });
      panel.sessionContext.kernelChanged.connect(chip.update, chip);
      return chip;
    });
  }
};

export const bannerPlugin: JupyterFrontEndPlugin<void> = {
  id: '@kai/jupyter:banner',
  description: 'Says above a notebook why its kernel waits for a GPU.',
  autoStart: true,
  requires: [IGpuModel, INotebookTracker],
  optional: [ITranslator, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    model: IGpuModel,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    registry: ISettingRegistry | null
  ) => {
    const trans = (translator ?? nullTranslator).load('kai_jupyter');
    const place: Place = { model, commands: app.commands, trans };
    const settings = loadedSettings(registry);
    const reconnects = new Reconnects();
    model.changed.connect(() => {
      tracker.forEach(panel => {
        const kernel = panel.sessionContext.session?.kernel ?? null;
        reconnects.look(kernel, groupOfPanel(model, panel));
      });
    }, reconnects);
    tracker.widgetAdded.connect((_, panel) => {
      const banner = new NotebookBanner(place, () =>
        settings.get('showBanner') === false ? null : groupOfPanel(model, panel)
      );
      panel.contentHeader.addWidget(banner);
      panel.sessionContext.kernelChanged.connect(banner.sync, banner);
      banner.sync();
    }, model);
  }
};
