/** A group in a tab of its own: the card in full width, with its log. Closing it ends nothing. */

import { MainAreaWidget } from '@jupyterlab/apputils';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { ExplainView } from '../api/schema';
import { supportText } from '../draw/brief';
import { card, type CardStage } from '../draw/card';
import { type Child, h } from '../draw/element';
import { LogView } from '../draw/logs';
import { followLogs } from '../model/logs';
import { type Place, Surface } from './surface';

export class GroupTab extends Surface {
  private _why: ExplainView | 'loading' | null = null;
  private _following: AbortController | null = null;
  private readonly _logs: LogView;

  constructor(
    place: Place,
    readonly group: string
  ) {
    super(place);
    this.addClass('jp-Kai-GangTab');
    this._logs = new LogView(group.split('/').pop() ?? group, place.trans);
    this.counts = true;
  }

  /** Open the reasons, as "Why" does. */
  explain(): void {
    void this._explain();
  }

  protected draw(): Child {
    const { model, trans } = this.place;
    const view = model.state.groups.get(this.group);
    if (view === undefined) {
      return h(
        'p',
        { class: 'jp-Kai-Say' },
        model.state.loaded ? trans.__('%1 is no longer kept.', this.group) : trans.__('Loading …')
      );
    }
    const offline =
      model.connection.kind === 'offline' ? { age_s: model.age_s, retry_s: model.retry_s } : null;
    const stage: CardStage = {
      trans,
      now: model.now,
      offline,
      why: this._why,
      nodes: model.state.nodes,
      logs: this._logs.node,
      place: 'tab',
      mayNotify: false
    };
    return card(view, stage);
  }

  protected override does(what: string, clicked: HTMLElement): void {
    const view = this.place.model.state.groups.get(this.group);
    if (what === 'why') {
      void this._explain();
    } else if (what === 'copy-support' && view !== undefined) {
      void navigator.clipboard?.writeText(supportText(view));
    } else if (what === 'go-to-line') {
      this.execute('kai:go-to-line', { group: this.group, line: Number(clicked.dataset.line) });
    } else if (what === 'insert-cell') {
      this.execute('kai:insert-code', { code: clicked.dataset.text ?? '' });
    } else if (what === 'reason') {
      this._takeReason(Number(clicked.dataset.index));
    } else {
      super.does(what, clicked);
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._follow();
  }

  protected override onBeforeDetach(message: Message): void {
    this._following?.abort();
    this._following = null;
    super.onBeforeDetach(message);
  }

  private _follow(): void {
    const following = new AbortController();
    this._following = following;
    const [namespace = '', name = ''] = this.group.split('/');
    const { api } = this.place.model;
    void followLogs(
      (after, wait_s, signal) => api.logs({ namespace, name }, after, wait_s, signal),
      page => this._logs.push(page),
      following.signal
    );
  }

  private async _explain(): Promise<void> {
    if (this._why !== null) {
      this._why = null;
      this.update();
      return;
    }
    this._why = 'loading';
    this.update();
    const [namespace = '', name = ''] = this.group.split('/');
    this._why = await this.place.model.api.explain({ namespace, name }).catch(() => null);
    this.update();
  }

  private _takeReason(index: number): void {
    const action =
      this._why !== null && this._why !== 'loading' ? this._why.items[index]?.action : null;
    if (action?.code) {
      this.execute('kai:insert-code', { code: action.code, run: true });
    }
  }
}

/** Return a tab of the main area that shows the group. */
export function groupTab(place: Place, group: string, icon: LabIcon): MainAreaWidget<GroupTab> {
  const tab = new MainAreaWidget({ content: new GroupTab(place, group) });
  tab.id = `kai-group-${group.replace('/', '-')}`;
  tab.title.label = group.split('/').pop() ?? group;
  tab.title.icon = icon;
  tab.title.closable = true;
  return tab;
}
