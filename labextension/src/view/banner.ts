/** One line over a notebook whose kernel waits, sits idle or was taken back. Never covers a cell. */

import type { PodGroupView } from '../api/schema';
import { MessageLoop, type Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { headlineAt } from '../draw/countdown';
import { type Child, h } from '../draw/element';
import { button, state } from '../draw/parts';
import { unbroken } from '../draw/words';
import { type Place, Surface } from './surface';

export class NotebookBanner extends Surface {
  private _hidden = '';
  private _height = 0;

  /** `group` is asked each time: what concerns the notebook now. */
  constructor(
    place: Place,
    private readonly _group: () => PodGroupView | null
  ) {
    super(place);
    this.addClass('jp-Kai-BannerHost');
    this.hide();
    place.model.changed.connect(this.sync, this);
  }

  override dispose(): void {
    this.place.model.changed.disconnect(this.sync, this);
    super.dispose();
  }

  /** Show or hide, as the state of the notebook's request wants. Lumino lays out hidden widgets with no height. */
  sync(): void {
    const group = this._group();
    this.setHidden(group === null || !tells(group) || sayingOf(group) === this._hidden);
    this.update();
  }

  protected draw(): Child {
    const group = this._group();
    if (group === null) {
      return null;
    }
    const { trans } = this.place;
    this.counts = group.eta !== null;
    const buttons = group.actions
      .map((action, index) => ({ action, index }))
      .filter(({ action }) => action.id !== 'logs' && action.id !== 'switch_queue');
    return h(
      'section',
      {
        class: 'jp-Kai-Banner',
        'data-state': group.tone,
        'data-group': `${group.namespace}/${group.name}`,
        'aria-label': trans.__('GPU request of this notebook')
      },
      state(null, group.icon, group.word, group.icon !== 'bell'),
      h(
        'p',
        {},
        h('b', {}, unbroken(headlineAt(group, this.place.model.now))),
        ` ${unbroken(group.detail)}`
      ),
      h(
        'span',
        { class: 'jp-Kai-Actions' },
        buttons.map(({ action, index }) =>
          button(action.id, action.label, {
            'data-index': index,
            'data-size': 's',
            'data-kind': action.id === 'smaller' || action.id === 'ask_again' ? null : 'plain',
            when: action.eta_text
          })
        ),
        button('hide', trans.__('Hide until something changes'), {
          'data-kind': 'icon',
          'data-size': 's',
          icon: 'x'
        })
      )
    );
  }

  protected override does(what: string, clicked: HTMLElement): void {
    if (what === 'hide') {
      const group = this._group();
      this._hidden = group === null ? '' : sayingOf(group);
      this.sync();
    } else if (what === 'why') {
      this.execute('kai:explain-request', {
        group: clicked.closest<HTMLElement>('[data-group]')?.dataset.group ?? ''
      });
    } else {
      super.does(what, clicked);
    }
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    this._fit();
  }

  protected override onResize(message: Widget.ResizeMessage): void {
    super.onResize(message);
    this._fit();
  }

  /** The line wraps on a narrow notebook; the layout is told how high it is. */
  private _fit(): void {
    const height = this.node.firstElementChild?.getBoundingClientRect().height ?? 0;
    if (this.isVisible && height > 0 && Math.ceil(height) !== this._height) {
      this._height = Math.ceil(height);
      this.node.style.minHeight = `${this._height}px`;
      if (this.parent !== null) {
        MessageLoop.postMessage(this.parent, Widget.Msg.FitRequest);
      }
    }
  }
}

/** States in which the notebook itself must say something. */
function tells(group: PodGroupView): boolean {
  return (
    group.state === 'Waiting' ||
    group.icon === 'moon' ||
    group.icon === 'bell' ||
    (group.tone === 'stop' && group.ended_by !== 'owner')
  );
}

/** What a hidden banner said: it comes back when the state or the reason changes, not at each tick of the clock. */
function sayingOf(group: PodGroupView): string {
  return [group.name, group.word, group.position ?? '', group.reason?.code ?? ''].join('|');
}
