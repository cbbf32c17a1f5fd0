/** The side panel, the tabs of groups, all commands, and what a person is told. */

import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  MainAreaWidget,
  Notification,
  showDialog,
  WidgetTracker
} from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { addCommands, COMMANDS } from '../commands';
import { IGpuModel } from '../tokens';
import type { GroupTab } from '../view/groupTab';
import { Notebooks } from '../view/notebooks';
import { Notifier, Voice } from '../view/notifier';
import { KaiPanel } from '../view/panel';
import type { Place } from '../view/surface';
import { gangIcon, gpuIcon } from './icon';
import { loadedSettings, PLUGIN_ID } from './settings';

type OpenGroup = (group: string, explain: boolean) => Promise<void>;

/** Opens each group in one tab, and finds the open one again. The tab's code is loaded when the first one is opened. */
function tabs(app: JupyterFrontEnd, place: Place, restorer: ILayoutRestorer | null): OpenGroup {
  const tracker = new WidgetTracker<MainAreaWidget<GroupTab>>({ namespace: 'kai-groups' });
  void restorer?.restore(tracker, {
    command: COMMANDS.openGang,
    args: tab => ({ group: tab.content.group }),
    name: tab => tab.content.group
  });
  return async (group, explain) => {
    const { groupTab } = await import('../view/groupTab');
    let tab = tracker.find(open => open.content.group === group);
    if (tab === undefined) {
      tab = groupTab(place, group, gangIcon);
      app.shell.add(tab, 'main', { mode: 'split-right' });
      void tracker.add(tab);
    }
    if (explain) {
      tab.content.explain();
    }
    app.shell.activateById(tab.id);
  };
}

function speak(model: IGpuModel, voice: Voice): void {
  model.transition.connect((_, { after }) => {
    if (after.mine) {
      voice.say(`${after.name}: ${after.headline}`);
    }
  }, voice);
  document.body.append(voice.node);
}

/** A hidden page gets no message, unless somebody asked to be told meanwhile. */
function restWhileHidden(model: IGpuModel, notifier: Notifier): void {
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) {
      model.resume();
    } else if (!notifier.isWaiting) {
      model.pause();
    }
  });
}

export const mainPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Side panel, commands and notifications for GPU shares and gangs.',
  autoStart: true,
  requires: [IGpuModel],
  optional: [
    ITranslator,
    ICommandPalette,
    ILayoutRestorer,
    ISettingRegistry,
    INotebookTracker,
    ILabShell
  ],
  activate: (
    app: JupyterFrontEnd,
    model: IGpuModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    tracker: INotebookTracker | null,
    labShell: ILabShell | null
  ) => {
    const trans = (translator ?? nullTranslator).load('kai_jupyter');
    const place: Place = { model, commands: app.commands, trans };
    const settings = loadedSettings(registry);
    const panel = new KaiPanel(place);
    panel.title.icon = gpuIcon;
    panel.title.caption = trans.__('GPU shares');
    app.shell.add(panel, 'left', { rank: 350, type: 'GPU shares' });
    restorer?.add(panel, panel.id);
    const openGroup = tabs(app, place, restorer);
    const notifier = new Notifier({
      trans,
      show: group =>
        labShell === null ? app.shell.activateById(panel.id) : openGroup(group, false),
      wants: what => settings.get(what === 'granted' ? 'notifyGranted' : 'notifyTrouble') !== false
    });
    model.transition.connect((_, transition) => notifier.turned(transition), notifier);
    model.noticed.connect((_, notice) => notifier.noticed(notice), notifier);
    restWhileHidden(model, notifier);
    speak(model, new Voice());
    addCommands(app.commands, {
      model,
      trans,
      notebooks: new Notebooks(tracker),
      icon: gpuIcon,
      gangIcon,
      gangWorkers: () => Number(settings.get('gangWorkers') ?? 4),
      openPanel: ask => {
        app.shell.activateById(panel.id);
        if (ask) {
          panel.ask();
        }
      },
      openGroup,
      notify: group => notifier.watch(group),
      confirmMove: async () => {
        const answer = await showDialog({
          title: trans.__('Move this notebook to a kernel with a GPU?'),
          body: trans.__(
            'Its variables are lost. The cells, all files and what it holds of a GPU are kept.'
          ),
          buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Move') })]
        });
        return answer.button.accept;
      },
      fail: error =>
        void Notification.error(error instanceof Error ? error.message : String(error), {
          autoClose: false
        })
    });
    model.changed.connect(() => {
      app.commands.notifyCommandChanged(COMMANDS.endAll);
      app.commands.notifyCommandChanged(COMMANDS.retry);
    }, panel);
    const category = trans.__('GPU shares');
    for (const command of [
      COMMANDS.openPanel,
      COMMANDS.request,
      COMMANDS.runAsGang,
      COMMANDS.move,
      COMMANDS.endAll,
      COMMANDS.retry
    ]) {
      palette?.addItem({ command, category });
    }
  }
};
