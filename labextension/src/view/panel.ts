/** The side panel: my requests, my queue, the devices, my gangs; it teaches when there is nothing to show. */

import type { Message } from '@lumino/messaging';
import type { PodGroupView, QueueView } from '../api/schema';
import { amountOf, askCard } from '../draw/ask';
import { type Child, h } from '../draw/element';
import { icon } from '../draw/icons';
import { button, state } from '../draw/parts';
import { duration, gpus } from '../draw/words';
import { Forecasts } from '../model/forecasts';
import { isLive, largestFreeMilli, mine } from '../model/state';
import { gang, legend, node, queue, request, section } from './sections';
import { type Place, Surface } from './surface';

const RECENT_MS = 3_600_000;
const DAY_MS = 86_400_000;

export class KaiPanel extends Surface {
  private readonly _folded = new Set<string>();
  private readonly _whole = new Set<string>();
  private readonly _forecasts: Forecasts;
  private _asking = false;
  private _chosen: string | null = null;

  constructor(place: Place) {
    super(place);
    this.id = 'kai-gpu-panel';
    this.addClass('jp-Kai-Panel');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', place.trans.__('GPU shares'));
    this._forecasts = new Forecasts(place.model);
    this._forecasts.changed.connect(this._redraw, this);
  }

  override dispose(): void {
    this._forecasts.changed.disconnect(this._redraw, this);
    super.dispose();
  }

  /** Open the choices with their forecasts. */
  ask(): void {
    this._asking = true;
    void this._forecasts.refresh();
    this.update();
  }

  protected draw(): Child {
    const { model, trans } = this.place;
    const own = mine(model.state);
    this.counts = own.some(group => group.eta !== null);
    const leases = own.filter(group => group.kind !== 'gang' && this._isShown(group, RECENT_MS));
    const gangs = own.filter(group => group.kind === 'gang' && this._isShown(group, DAY_MS));
    if (this._asking) {
      void this._forecasts.refresh();
    }
    return [
      this._head(),
      this._offlineNote(),
      this._asking
        ? h(
            'div',
            { class: 'jp-Kai-Ask', 'data-key': 'ask' },
            askCard(
              this._forecasts.choices,
              { gpu: this._chosen, queue: null, duration: '' },
              'kai-panel-ask',
              trans
            )
          )
        : null,
      !model.state.loaded ? this._loading() : null,
      model.state.loaded && leases.length === 0 && !gangs.some(isLive) && !this._asking
        ? this._empty()
        : null,
      leases.length > 0 ? this._requests(leases) : null,
      this._queues(own).map(view => this._queue(view)),
      this._devices(own),
      gangs.length > 0 ? this._gangs(gangs) : null
    ];
  }

  protected override does(what: string, clicked: HTMLElement): void {
    const { section: folded, queue: name, gpu } = clicked.dataset;
    if (what === 'fold' && folded !== undefined) {
      toggle(this._folded, folded);
    } else if (what === 'more' && name !== undefined) {
      toggle(this._whole, name);
    } else if (what === 'open-ask') {
      this._asking = !this._asking;
    } else if (what === 'ask') {
      this._asking = false;
      this.execute('kai:request-gpu', gpu === undefined ? {} : { gpu });
    } else {
      super.does(what, clicked);
    }
    this.update();
  }

  override handleEvent(event: Event): void {
    if (event.type === 'change' && event.target instanceof HTMLInputElement) {
      this._chosen = event.target.value;
      this.update();
    } else if (event.type === 'keydown') {
      this._moved(event as KeyboardEvent);
    }
    super.handleEvent(event);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('change', this);
    this.node.addEventListener('keydown', this);
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener('change', this);
    this.node.removeEventListener('keydown', this);
    super.onBeforeDetach(message);
  }

  private _redraw(): void {
    this.update();
  }

  /** Arrow keys go from one control to the next, so that a long panel is quickly crossed. */
  private _moved(event: KeyboardEvent): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step === 0 || event.target instanceof HTMLInputElement) {
      return;
    }
    const stops = [...this.node.querySelectorAll<HTMLElement>('button, summary')];
    const at = stops.indexOf(document.activeElement as HTMLElement);
    stops[at + step]?.focus();
    event.preventDefault();
  }

  private _isShown(group: PodGroupView, recent_ms: number): boolean {
    return (
      isLive(group) ||
      (group.ended_at !== null &&
        group.tone !== 'mute' &&
        this.place.model.now - group.ended_at < recent_ms)
    );
  }

  private _head(): HTMLElement {
    const { trans } = this.place;
    return h(
      'div',
      { class: 'jp-Kai-Panel-head' },
      h('h2', {}, trans.__('GPU shares')),
      button('open-ask', trans.__('Ask for a GPU share'), {
        'data-kind': 'icon',
        'data-size': 's',
        icon: 'plus',
        'aria-pressed': String(this._asking)
      })
    );
  }

  private _offlineNote(): Child {
    const { model, trans } = this.place;
    if (model.connection.kind !== 'offline') {
      return null;
    }
    const age = model.state.loaded
      ? trans.__('All numbers are as of %1 ago. Your place is kept.', duration(model.age_s))
      : model.connection.text;
    const retry = model.retry_s ?? 0;
    return h(
      'div',
      { class: 'jp-Kai-Note', 'data-state': 'mute', role: 'status', 'data-key': 'offline' },
      state(null, 'plug', trans.__('Offline'), true),
      h('p', {}, h('b', {}, trans.__('The queue does not answer.')), ` ${age}`),
      button('retry', retry > 0 ? trans.__('Retry (in %1)', duration(retry)) : trans.__('Retry'), {
        'data-size': 's'
      })
    );
  }

  private _loading(): HTMLElement {
    return h(
      'div',
      {
        class: 'jp-Kai-Section',
        role: 'group',
        'aria-label': this.place.trans.__('Loading'),
        'data-key': 'loading'
      },
      h(
        'h3',
        {},
        h('span', { class: 'skel-title' }, this.place.trans.__('My requests')),
        h('span', { class: 'meta' }, this.place.trans.__('loading'))
      ),
      h('div', { class: 'jp-Kai-Skeleton', 'aria-hidden': 'true' }, h('i'), h('i'), h('i'))
    );
  }

  private _empty(): HTMLElement {
    const { model, trans } = this.place;
    const free = largestFreeMilli(model.state);
    const amount = free >= 500 ? '0.5' : free >= 250 ? '0.25' : '1';
    const says =
      free >= 250
        ? trans.__('You hold no GPU. %1 is free now.', amountOf(String(free / 1000), trans))
        : trans.__('You hold no GPU. All are in use now.');
    const tries = (label: string, code: string): HTMLElement =>
      h(
        'p',
        { class: 'try' },
        h('span', {}, label),
        h('code', { class: 'jp-Kai-Mono' }, code),
        button('copy', trans.__('Copy %1', code), {
          'data-kind': 'icon',
          'data-size': 's',
          icon: 'copy',
          'data-text': code
        })
      );
    return h(
      'div',
      { class: 'jp-Kai-Empty', 'data-key': 'empty' },
      icon('gpu'),
      h('p', { class: 'lead' }, says),
      h(
        'p',
        {},
        trans.__(
          'Your notebooks run on CPU. Ask for a share when a cell needs one; you can keep working while you wait.'
        )
      ),
      button('open-ask', trans.__('Ask for a GPU share'), { 'data-kind': 'main' }),
      tries(trans.__('Or in a cell'), `%gpu ${amount}`),
      tries(trans.__('On many workers'), '%%gang -n 4')
    );
  }

  private _requests(leases: ReadonlyArray<PodGroupView>): HTMLElement {
    const { model, trans } = this.place;
    const stale = model.connection.kind === 'offline' ? duration(model.age_s) : null;
    return section(
      'mine',
      trans.__('My requests'),
      String(leases.length),
      !this._folded.has('mine'),
      () =>
        h(
          'ul',
          { class: 'jp-Kai-List' },
          leases.map(group => request(group, stale, model.now, trans))
        )
    );
  }

  /** The queues that concern me: those I wait or hold in, else the first I may ask in. */
  private _queues(own: ReadonlyArray<PodGroupView>): ReadonlyArray<QueueView> {
    const leaves = this.place.model.state.queues.filter(view => view.is_leaf);
    const used = new Set(own.filter(isLive).map(group => group.queue));
    const concerned = leaves.filter(view => used.has(view.name));
    return concerned.length > 0 ? concerned : leaves.filter(view => view.may_submit).slice(0, 1);
  }

  private _queue(view: QueueView): HTMLElement {
    const { trans } = this.place;
    const title = [trans.__('Queue'), ' ', h('span', { class: 'name' }, view.name)];
    const id = `queue-${view.name}`;
    const waits = trans._n('%1 waits', '%1 wait', view.waiting, view.waiting);
    return section(id, title, waits, !this._folded.has(id), () =>
      queue(view, this._whole.has(view.name), trans)
    );
  }

  private _devices(own: ReadonlyArray<PodGroupView>): Child {
    const { model, trans } = this.place;
    const nodes = model.state.nodes.filter(view => view.milli_gpu > 0);
    if (nodes.length === 0) {
      return null;
    }
    const sum = (pick: (view: (typeof nodes)[number]) => number): string =>
      gpus(nodes.reduce((total, view) => total + pick(view), 0));
    const meta = trans.__(
      '%1 of %2',
      sum(view => view.allocated_milli_gpu),
      sum(view => view.milli_gpu)
    );
    const queues = this._queues(own);
    const names = new Set(queues.map(view => view.name));
    const startsOpen = nodes.length <= 2;
    return section('devices', trans.__('GPUs'), meta, !this._folded.has('devices'), () => [
      legend(queues[0]?.name ?? trans.__('your queue'), trans),
      nodes.map(view =>
        node(view, this._folded.has(`node-${view.name}`) !== startsOpen, names, trans)
      )
    ]);
  }

  private _gangs(gangs: ReadonlyArray<PodGroupView>): HTMLElement {
    const { trans } = this.place;
    return section(
      'gangs',
      trans.__('Gangs'),
      String(gangs.length),
      !this._folded.has('gangs'),
      () =>
        h(
          'ul',
          { class: 'jp-Kai-List' },
          gangs.map(group => gang(group, trans))
        )
    );
  }
}

function toggle(set: Set<string>, item: string): void {
  if (!set.delete(item)) {
    set.add(item);
  }
}
