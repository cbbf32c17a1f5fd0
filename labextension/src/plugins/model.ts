/** Provides the model, tells it when nobody looks, and hands its news to the cards in the page. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { KaiApi } from '../api/client';
import { FROM_CARDS } from '../commands';
import { GpuModel } from '../model/model';
import { isLive, mine } from '../model/state';
import { IGpuModel } from '../tokens';

/** What a card in the page hears. */
function news(model: IGpuModel): unknown {
  return {
    groups: [...model.state.groups.values()],
    nodes: model.state.nodes,
    now: model.now,
    connected: model.connection.kind === 'live',
    age_s: model.age_s,
    retry_s: model.retry_s
  };
}

/** Whether a card on the page may count: a start that is expected, an end that comes nearer. */
function counting(model: IGpuModel): boolean {
  return mine(model.state).some(
    group => group.eta !== null || (isLive(group) && group.expires_at !== null)
  );
}

export const modelPlugin: JupyterFrontEndPlugin<IGpuModel> = {
  id: '@kai/jupyter:model',
  description: 'Holds the live state of GPU requests, queues and devices.',
  autoStart: true,
  provides: IGpuModel,
  activate: app => {
    const model = new GpuModel(new KaiApi(app.serviceManager.serverSettings));
    const tell = (): void => {
      window.dispatchEvent(new CustomEvent('kai:requests', { detail: news(model) }));
    };
    model.changed.connect(tell, model);
    model.ticked.connect(() => {
      if (model.connection.kind === 'offline' || counting(model)) {
        tell();
      }
    }, model);
    window.addEventListener('kai:hello', tell);
    window.addEventListener('kai:do', event => {
      const { command, args } = (
        event as CustomEvent<{ command: string; args: ReadonlyPartialJSONObject }>
      ).detail;
      if (FROM_CARDS.has(command)) {
        void app.commands.execute(command, args);
      }
    });
    return model;
  }
};
