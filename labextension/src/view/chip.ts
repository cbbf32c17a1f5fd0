/** The chip in a notebook's toolbar: what this notebook holds or waits for; opens the choices. */

import type { PodGroupView } from '../api/schema';
import { type Child, h } from '../draw/element';
import { icon } from '../draw/icons';
import { type ITrans, unbroken } from '../draw/words';
import { isLive } from '../model/state';
import { Popover } from './popover';
import { type Place, Surface } from './surface';

/** What the popover does for the notebook the chip belongs to. */
export type ChipDoors = {
  readonly group: () => PodGroupView | null;
  readonly title: () => string;
  readonly ask: (gpu: string) => void;
};

export class GpuChip extends Surface {
  private _popover: Popover | null = null;

  constructor(
    place: Place,
    private readonly _doors: ChipDoors
  ) {
    super(place);
    this.addClass('jp-Kai-ChipHost');
  }

  override dispose(): void {
    this._popover?.dispose();
    super.dispose();
  }

  protected draw(): Child {
    const { model, trans } = this.place;
    const group = this._doors.group();
    const live = group !== null && isLive(group) ? group : null;
    const offline = model.connection.kind === 'offline';
    return h(
      'button',
      {
        class: 'jp-Kai-Chip',
        type: 'button',
        'data-do': 'open',
        'data-state': offline ? 'mute' : (live?.tone ?? 'mute'),
        'aria-haspopup': 'dialog',
        'aria-expanded': String(this._popover !== null)
      },
      icon(offline ? 'plug' : (live?.icon ?? 'gpu')),
      ` ${chipText(live, trans)}`,
      h(
        'span',
        { class: 'jp-Kai-Sr' },
        offline
          ? trans.__(', offline. Change')
          : live
            ? trans.__(', %1. Change', live.word)
            : trans.__('. Change')
      ),
      ' ',
      icon('down')
    );
  }

  protected override does(what: string): void {
    if (what !== 'open') {
      return;
    }
    if (this._popover !== null) {
      this._popover.dispose();
      return;
    }
    const anchor = this.node.querySelector<HTMLElement>('button') ?? this.node;
    const popover = new Popover(this.place, anchor, this._doors);
    this._popover = popover;
    popover.disposed.connect(this._closed, this);
    this.update();
  }

  private _closed(): void {
    this._popover = null;
    this.update();
  }
}

function chipText(group: PodGroupView | null, trans: ITrans): string {
  if (group === null) {
    return trans.__('GPU: none');
  }
  const amount = group.request.text.replace(/ GPUs?\b/, '');
  if (group.state === 'Waiting' && group.position !== null) {
    return unbroken(
      trans.__(
        'GPU %1: %2 of %3',
        amount,
        group.position,
        Math.max(group.position, group.waiting_in_queue ?? group.position)
      )
    );
  }
  return unbroken(trans.__('GPU %1', amount));
}
