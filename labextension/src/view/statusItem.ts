/** The status-bar item: what I hold, how many of my requests wait, and the one thing that needs a look. */

import { type Child, h } from '../draw/element';
import { icon } from '../draw/icons';
import { state } from '../draw/parts';
import { gpus, unbroken } from '../draw/words';
import { heldMilli, isLive, mine } from '../model/state';
import { Surface } from './surface';

export class StatusItem extends Surface {
  protected draw(): Child {
    const { model, trans } = this.place;
    this.addClass('jp-Kai-StatusHost');
    const own = mine(model.state).filter(isLive);
    const waiting = own.filter(group => group.state === 'Waiting').length;
    const idle = own.find(group => group.icon === 'moon' || group.icon === 'bell') ?? null;
    const held = trans.__('GPU %1', gpus(heldMilli(model.state)));
    const text = waiting > 0 ? trans._n('%2 · %1 waiting', '%2 · %1 waiting', waiting, held) : held;
    const offline = model.connection.kind === 'offline';
    return h(
      'button',
      { class: 'jp-Kai-StatusItem', type: 'button', 'data-do': 'open-panel' },
      icon(offline ? 'plug' : 'gpu'),
      ` ${offline ? trans.__('GPU offline') : unbroken(text)}`,
      idle && !offline
        ? state(
            idle.tone,
            idle.icon,
            `${gpus(idle.request.fraction_milli + idle.request.whole * 1000)} ${idle.word.toLowerCase()}`
          )
        : null,
      h('span', { class: 'jp-Kai-Sr' }, trans.__('. Open the panel'))
    );
  }
}
