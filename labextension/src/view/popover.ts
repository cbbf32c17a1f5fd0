/** The popover of the chip: amounts with a live forecast each. Enter asks, Esc closes, focus goes back to the chip. */

import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { amountOf, type Choice, memoryOf, simulatedTag, when } from '../draw/ask';
import { type Child, h } from '../draw/element';
import { button } from '../draw/parts';
import { unbroken } from '../draw/words';
import { Forecasts } from '../model/forecasts';
import { isLive } from '../model/state';
import type { ChipDoors } from './chip';
import { type Place, Surface } from './surface';

const GAP_PX = 4;
const WIDTH_PX = 320;

export class Popover extends Surface {
  private readonly _forecasts: Forecasts;

  constructor(
    place: Place,
    private readonly _anchor: HTMLElement,
    private readonly _doors: ChipDoors
  ) {
    super(place);
    this.addClass('jp-Kai-PopoverHost');
    this._forecasts = new Forecasts(place.model);
    this._forecasts.changed.connect(this._redraw, this);
    Widget.attach(this, document.body);
    void this._forecasts.refresh();
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    const focused = this.node.contains(document.activeElement);
    this._forecasts.changed.disconnect(this._redraw, this);
    super.dispose();
    if (focused) {
      this._anchor.focus();
    }
  }

  protected draw(): Child {
    void this._forecasts.refresh();
    const { trans } = this.place;
    const title = this._doors.title();
    const group = this._doors.group();
    const live = group !== null && isLive(group) ? group : null;
    const queue = this._forecasts.choices.find(({ forecast }) => forecast !== null)?.forecast
      ?.queue;
    return h(
      'div',
      { class: 'jp-Kai-Popover', role: 'dialog', 'aria-label': trans.__('GPU of %1', title) },
      h(
        'p',
        { class: 'lead' },
        h(
          'b',
          {},
          live
            ? unbroken(trans.__('%1: %2', title, live.headline))
            : trans.__('%1 has no GPU', title)
        ),
        queue ? h('span', { class: 'jp-Kai-Soft' }, trans.__('queue %1', queue)) : null
      ),
      h(
        'ul',
        {},
        this._forecasts.choices.map(choice => this._row(choice)),
        this._more()
      ),
      simulatedTag(this._forecasts.choices, trans),
      live
        ? h(
            'p',
            { class: 'foot', 'data-group': `${live.namespace}/${live.name}` },
            button(
              live.state === 'Waiting' ? 'cancel' : 'release',
              live.state === 'Waiting'
                ? trans.__('Cancel this request')
                : trans.__('Release this share'),
              { 'data-size': 's' }
            )
          )
        : null,
      h('p', { class: 'foot' }, trans.__('Enter asks, Esc closes. Cells keep running on CPU.'))
    );
  }

  protected override does(what: string, clicked: HTMLElement): void {
    const gpu = clicked.dataset.gpu;
    if (what === 'ask' && gpu !== undefined) {
      this._doors.ask(gpu);
    } else {
      super.does(what, clicked);
    }
    this.dispose();
  }

  override handleEvent(event: Event): void {
    if (event.type === 'keydown') {
      this._pressed(event as KeyboardEvent);
    } else if (event.type === 'pointerdown') {
      const outside =
        event.target instanceof Node &&
        !this.node.contains(event.target) &&
        !this._anchor.contains(event.target);
      if (outside) {
        this.dispose();
      }
    } else {
      super.handleEvent(event);
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    document.addEventListener('pointerdown', this, true);
    this.node.addEventListener('keydown', this);
    const box = this._anchor.getBoundingClientRect();
    this.node.style.insetBlockStart = `${box.bottom + GAP_PX}px`;
    this.node.style.insetInlineStart = `${Math.max(GAP_PX, Math.min(box.left, window.innerWidth - WIDTH_PX - GAP_PX))}px`;
  }

  protected override onBeforeDetach(message: Message): void {
    document.removeEventListener('pointerdown', this, true);
    this.node.removeEventListener('keydown', this);
    super.onBeforeDetach(message);
  }

  protected override onUpdateRequest(message: Message): void {
    const first = this.node.firstElementChild === null;
    super.onUpdateRequest(message);
    if (first) {
      this.node.querySelector<HTMLElement>('li button:not(:disabled)')?.focus();
    }
  }

  private _redraw(): void {
    this.update();
  }

  private _pressed(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      event.stopPropagation();
      this.dispose();
      return;
    }
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      const stops = [...this.node.querySelectorAll<HTMLElement>('button:not(:disabled)')];
      const at = stops.indexOf(document.activeElement as HTMLElement);
      stops[(at + step + stops.length) % stops.length]?.focus();
      event.preventDefault();
    }
  }

  private _row(choice: Choice): HTMLElement {
    const { trans } = this.place;
    return h(
      'li',
      { 'data-key': choice.gpu },
      h(
        'button',
        {
          type: 'button',
          'data-do': 'ask',
          'data-gpu': choice.gpu,
          disabled: choice.forecast?.verdict === 'never'
        },
        h('b', {}, amountOf(choice.gpu, trans)),
        h('span', { class: 'mem' }, memoryOf(choice)),
        when(choice, trans)
      )
    );
  }

  private _more(): HTMLElement {
    const { trans } = this.place;
    return h(
      'li',
      { 'data-key': 'more' },
      h(
        'button',
        { type: 'button', 'data-do': 'open-panel' },
        h('b', {}, trans.__('More')),
        h('span'),
        h('span', {}, trans.__('queue, devices, gangs'))
      )
    );
  }
}
