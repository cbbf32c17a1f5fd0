/** The small parts every surface is made of: button, state, line, ETA track, share bar, facts, rows, worker squares. */

import type { ActionView, EtaView, Holder, PodView, ReasonView, Tone } from '../api/schema';
import { type Attributes, type Child, h } from './element';
import { icon } from './icons';
import { clock, gpus, type ITrans, unbroken, utc } from './words';

/** How a button looks and what it carries. */
export type ButtonLook = {
  readonly icon?: string;
  /** Its own waiting time, in brackets. */
  readonly when?: string | null;
  /** Stands at the far end of its row. */
  readonly push?: boolean;
} & Attributes;

/** A button that says what it does through `data-do`; the surface listens once, at its root. */
export function button(does: string, label: string, look: ButtonLook = {}): HTMLElement {
  const { icon: picture, when, push, ...attributes } = look;
  const iconOnly = attributes['data-kind'] === 'icon';
  return h(
    'button',
    {
      class: push ? 'jp-Kai-Button jp-Kai-Push' : 'jp-Kai-Button',
      type: 'button',
      'data-do': does,
      'aria-label': iconOnly ? label : null,
      title: iconOnly ? label : null,
      ...attributes
    },
    picture ? icon(picture) : null,
    iconOnly ? null : picture ? ` ${label}` : label,
    when ? h('span', { class: 'jp-Kai-When' }, ` (${unbroken(when)})`) : null
  );
}

/** Icon and word of a state; the colour comes third. */
export function state(
  tone: Tone | null,
  picture: string,
  word: string,
  hidden = false
): HTMLElement {
  const text = hidden ? h('span', { class: 'jp-Kai-Sr' }, word) : ` ${word}`;
  return h('span', { class: 'jp-Kai-State', 'data-state': tone }, icon(picture), text);
}

/** A small label in a frame, with an icon. */
export function tag(tone: Tone, picture: string, text: string): HTMLElement {
  return h('span', { class: 'jp-Kai-Tag', 'data-state': tone }, icon(picture), ` ${text}`);
}

/** The one sentence, and the one reason under it. */
export function line(headline: string, detail: string): HTMLElement {
  return h(
    'p',
    { class: 'jp-Kai-Line' },
    h('strong', {}, unbroken(headline)),
    detail ? ` ${unbroken(detail)}` : null
  );
}

/** A local time with UTC as its hint. */
export function moment(at: number): HTMLElement {
  return h('time', { datetime: new Date(at).toISOString(), title: utc(at) }, clock(at));
}

/** Labels and values with one left edge. */
export function facts(...rows: ReadonlyArray<readonly [string, Child] | null>): HTMLElement {
  const told = rows.filter((row): row is readonly [string, Child] => row !== null);
  return h(
    'dl',
    { class: 'jp-Kai-Facts' },
    told.map(([label, value]) => [h('dt', {}, label), h('dd', {}, value)])
  );
}

/** An offer: what, when, and the button that takes it. */
export function offer(action: ActionView, index: number, verb: string, what: string): HTMLElement {
  return h(
    'li',
    { class: 'jp-Kai-Row' },
    h('span', {}, unbroken(what)),
    h('span', { class: 'jp-Kai-When' }, unbroken(action.eta_text ?? '')),
    button(action.id, verb, {
      'data-index': index,
      'data-size': 's',
      'aria-label': `${verb}: ${what}`
    })
  );
}

/** The start on one track: now, earliest, likely, latest. Nothing where no number is known. */
export function etaTrack(eta: EtaView | null, now: number, trans: ITrans): HTMLElement | null {
  if (eta?.likely_at == null || eta.likely_at <= now) {
    return null;
  }
  const from = Math.max(now, eta.earliest_at ?? eta.likely_at);
  const to = Math.max(eta.likely_at, eta.latest_at ?? eta.likely_at);
  const end = now + (to - now) * 1.36;
  const place = (at: number): string => `${(((at - now) / (end - now)) * 100).toFixed(1)}%`;
  const near = (a: number, b: number): boolean => Math.abs(a - b) / (end - now) < 0.1;
  return h(
    'div',
    {
      class: 'jp-Kai-Eta',
      role: 'img',
      style: `--from: ${place(from)}; --at: ${place(eta.likely_at)}; --to: ${place(to)}`,
      'aria-label': trans.__(
        'Start likely at %1, between %2 and %3',
        clock(eta.likely_at),
        clock(from),
        clock(to)
      )
    },
    h('i'),
    h('b'),
    near(eta.likely_at, now) ? null : h('span', { class: 'a' }, trans.__('now')),
    near(from, eta.likely_at) || near(from, now) ? null : h('span', { class: 'f' }, clock(from)),
    h('span', { class: 'm' }, clock(eta.likely_at)),
    near(to, eta.likely_at) ? null : h('span', { class: 'z' }, clock(to))
  );
}

/** One GPU as a bar of shares: yours, your queue's, others', free. */
export function shareBar(
  index: number,
  holders: ReadonlyArray<Pick<Holder, 'mine' | 'queue' | 'milli' | 'who'>>,
  queues: ReadonlySet<string>,
  trans: ITrans,
  withAmount = false
): HTMLElement {
  const held = holders.reduce((sum, holder) => sum + holder.milli, 0);
  const free = Math.max(0, 1000 - held);
  const told = holders.map(holder =>
    trans.__('%1 %2', gpus(holder.milli), holder.mine ? trans.__('yours') : holder.queue)
  );
  const name = trans.__(
    'GPU %1: %2',
    index,
    [...told, ...(free > 0 ? [trans.__('%1 free', gpus(free))] : [])].join(', ')
  );
  return h(
    'span',
    { class: 'jp-Kai-Share', role: 'img', 'aria-label': name, title: name },
    holders.map(holder =>
      h(
        'span',
        {
          class: holder.mine ? 'mine' : queues.has(holder.queue) ? null : 'other',
          style: `--w: ${holder.milli}`
        },
        holder.mine ? (withAmount ? trans.__('you %1', gpus(holder.milli)) : trans.__('you')) : null
      )
    ),
    free > 0
      ? h('span', { class: 'free', style: `--w: ${free}` }, free >= 200 ? trans.__('free') : null)
      : null
  );
}

/** A bar that fills. */
export function meter(percent: number, name: string, tone: Tone): HTMLElement {
  const value = Math.max(0, Math.min(100, Math.round(percent)));
  return h(
    'span',
    {
      class: 'jp-Kai-Meter',
      'data-state': tone,
      style: `--v: ${value}%`,
      role: 'progressbar',
      'aria-label': name,
      'aria-valuenow': value,
      'aria-valuemin': 0,
      'aria-valuemax': 100
    },
    h('i')
  );
}

/** Numbered reasons, each a fact and one thing to do. */
export function reasons(
  items: ReadonlyArray<{ title: string; text: string; action: ActionView | null }>
): HTMLElement {
  return h(
    'ol',
    { class: 'jp-Kai-Reasons' },
    items.map((item, index) =>
      h(
        'li',
        {},
        h('span', {}, h('b', {}, `${item.title}.`), ` ${unbroken(item.text)}`),
        item.action
          ? button('reason', item.action.label, { 'data-index': index, 'data-size': 's' })
          : null
      )
    )
  );
}

/** The reason's own words, or nothing where they repeat what is already said. */
export function reasonText(reason: ReasonView | null, said: string): string {
  return reason !== null && !said.includes(reason.text) ? reason.text : '';
}

type Square = {
  readonly tone: Tone;
  readonly icon: string;
  readonly hollow: boolean;
  readonly word: string;
};

/** The state of one worker as its square shows it. */
export function workerSquare(pod: PodView, groupFailed: boolean, trans: ITrans): Square {
  switch (pod.state) {
    case 'Running':
      return { tone: 'run', icon: 'triangle', hollow: false, word: trans.__('runs') };
    case 'Binding':
    case 'Bound':
      return { tone: 'run', icon: 'arrow', hollow: false, word: trans.__('starts') };
    case 'Succeeded':
      return { tone: 'ok', icon: 'tick', hollow: false, word: trans.__('done') };
    case 'Failed':
      return groupFailed && pod.signal !== null
        ? { tone: 'mute', icon: 'square', hollow: true, word: trans.__('stopped') }
        : { tone: 'stop', icon: 'cross', hollow: false, word: trans.__('failed') };
    case 'Releasing':
      return { tone: 'mute', icon: 'square', hollow: true, word: trans.__('stops') };
    default:
      return pod.fits === true
        ? { tone: 'ok', icon: 'check', hollow: false, word: trans.__('fits') }
        : { tone: 'wait', icon: 'hourglass', hollow: true, word: trans.__('waits') };
  }
}

/** All workers as squares; above 16 (or in the panel) icon only, the sums are in the sentence. */
export function workers(
  pods: ReadonlyArray<PodView>,
  failedRank: number | null,
  trans: ITrans,
  dense = pods.length > 16
): HTMLElement {
  return h(
    'ol',
    {
      class: 'jp-Kai-Workers',
      'data-dense': dense,
      'aria-label': trans._n('%1 worker', '%1 workers', pods.length, pods.length)
    },
    pods.map(pod => {
      const square = workerSquare(pod, failedRank !== null && pod.rank !== failedRank, trans);
      const name = trans.__('Worker %1 %2', pod.rank, square.word);
      const attributes = {
        class: 'jp-Kai-Worker',
        'data-state': square.tone,
        'data-hollow': square.hollow,
        title: name
      };
      return dense
        ? h('li', attributes, icon(square.icon), h('span', { class: 'jp-Kai-Sr' }, name))
        : h('li', attributes, h('b', {}, pod.rank), icon(square.icon), h('span', {}, square.word));
    })
  );
}
