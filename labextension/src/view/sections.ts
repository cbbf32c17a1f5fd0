/** The sections of the side panel, each drawn from the state alone. */

import type { DeviceView, NodeView, PodGroupView, QueueView, WaitingRow } from '../api/schema';
import { headlineAt } from '../draw/countdown';
import { type Child, h } from '../draw/element';
import { icon } from '../draw/icons';
import { button, shareBar, state, workers } from '../draw/parts';
import { gpus, type ITrans, unbroken } from '../draw/words';

const SHOWN_ROWS = 5;

/** A section with a head that folds it. */
export function section(
  id: string,
  title: Child,
  meta: string,
  open: boolean,
  content: () => Child
): HTMLElement {
  const label = `kai-section-${id}`;
  return h(
    'div',
    { class: 'jp-Kai-Section', role: 'group', 'aria-labelledby': label, 'data-key': id },
    h(
      'h3',
      { id: label },
      h(
        'button',
        { type: 'button', 'data-do': 'fold', 'data-section': id, 'aria-expanded': String(open) },
        icon(open ? 'down' : 'right'),
        h('span', {}, title)
      ),
      h('span', { class: 'meta' }, unbroken(meta))
    ),
    open ? content() : null
  );
}

/** The name of the notebook, or of the group where it came from elsewhere. */
export function whereOf(group: PodGroupView): string {
  return group.origin.notebook?.split('/').pop() ?? group.name;
}

/** One request of mine. Idle and lost ones show their buttons; the others have one at the end. */
export function request(
  group: PodGroupView,
  stale: string | null,
  now: number,
  trans: ITrans
): HTMLElement {
  const where = whereOf(group);
  const buttons = group.actions
    .map((action, index) => ({ action, index }))
    .filter(({ action }) =>
      ['release', 'extend', 'ask_again', 'cancel', 'restart_kernel'].includes(action.id)
    );
  const spread =
    group.icon === 'moon' ||
    group.tone === 'stop' ||
    group.actions.some(({ id }) => id === 'restart_kernel');
  const ends = buttons.find(({ action }) => action.id === 'cancel' || action.id === 'release');
  const said =
    stale === null
      ? headlineAt(group, now)
      : trans.__('%1, as of %2 ago', group.headline.replace(/\.$/, ''), stale);
  return h(
    'li',
    {
      class: 'jp-Kai-Req',
      'data-state': stale === null ? group.tone : 'mute',
      'data-group': `${group.namespace}/${group.name}`,
      'data-key': group.name
    },
    state(null, group.icon, group.word, true),
    h(
      'div',
      {},
      h(
        'p',
        { class: 't' },
        h('b', {}, unbroken(group.request.text)),
        ' ',
        h('span', { class: 'where', title: where }, where)
      ),
      h('p', { class: 'l' }, unbroken(said)),
      spread && stale === null && buttons.length > 0
        ? h(
            'p',
            { class: 'a' },
            buttons
              .slice(0, 2)
              .map(({ action, index }) =>
                button(action.id, action.label, { 'data-index': index, 'data-size': 's' })
              )
          )
        : null
    ),
    h(
      'span',
      { class: 'end' },
      ends && !spread && stale === null
        ? button(
            ends.action.id,
            trans.__('%1 %2 of %3', ends.action.label, group.request.text, where),
            { 'data-kind': 'icon', 'data-size': 's', icon: 'x' }
          )
        : null
    )
  );
}

/** The waiting list of a queue: a window around my own place where the list is long. */
export function queue(view: QueueView, all: boolean, trans: ITrans): Child {
  const rows = all ? view.waiting_rows : shownRows(view.waiting_rows);
  const hidden = view.waiting_rows.length - rows.length;
  const more = hidden > 0 || (all && view.waiting_rows.length > SHOWN_ROWS);
  return [
    h('p', { class: 'jp-Kai-Say' }, unbroken(view.sentence)),
    rows.length > 0
      ? h(
          'ol',
          { class: 'jp-Kai-Queue', 'aria-label': trans.__('Queue %1', view.name) },
          rows.map(row => waitingRow(row, trans))
        )
      : null,
    more || (!view.shows_names && rows.length > 0)
      ? h(
          'p',
          { class: 'jp-Kai-Say more' },
          more
            ? button('more', hidden > 0 ? trans.__('%1 more', hidden) : trans.__('Fewer'), {
                'data-kind': 'plain',
                'data-size': 's',
                'data-queue': view.name
              })
            : h('span'),
          view.shows_names
            ? null
            : h('span', { class: 'jp-Kai-Soft' }, trans.__('Names hidden by %1', view.name))
        )
      : null
  ];
}

function shownRows(rows: ReadonlyArray<WaitingRow>): ReadonlyArray<WaitingRow> {
  const own = rows.findIndex(row => row.mine);
  const first = own < SHOWN_ROWS ? 0 : own - 1;
  return rows.slice(first, first + SHOWN_ROWS);
}

function waitingRow(row: WaitingRow, trans: ITrans): HTMLElement {
  // The range stands in my own card; a row has room for the likely time alone.
  const [, about = '', rest = row.eta_text] =
    /^(about )?(.*?)(?: \(.*\))?$/.exec(row.eta_text) ?? [];
  return h(
    'li',
    { class: row.mine ? 'me' : null, 'aria-current': row.mine ? 'true' : null },
    h('span', { class: 'n' }, row.position),
    h('span', { class: 'what', title: row.request_text }, unbroken(row.request_text)),
    h('span', { class: 'who', title: row.who }, row.mine ? trans.__('you') : row.who),
    h(
      'span',
      { class: 'when', title: row.eta_text },
      about ? h('span', { class: 'about' }, about) : null,
      unbroken(rest)
    )
  );
}

/** What the fills of a share bar mean. */
export function legend(queueName: string, trans: ITrans): HTMLElement {
  const item = (kind: string, text: string): HTMLElement =>
    h('span', {}, h('i', { class: kind }), text);
  return h(
    'p',
    { class: 'jp-Kai-Legend' },
    item('mine', trans.__('you')),
    item('q', queueName),
    item('other', trans.__('other queues')),
    item('free', trans.__('free'))
  );
}

/** A node with its devices, or folded with one thin bar. */
export function node(
  view: NodeView,
  open: boolean,
  queues: ReadonlySet<string>,
  trans: ITrans
): Child {
  const held = trans.__('%1 of %2', gpus(view.allocated_milli_gpu), gpus(view.milli_gpu));
  const note = [
    view.simulated ? trans.__('simulated') : '',
    view.schedulable ? '' : trans.__('takes nothing new')
  ]
    .filter(Boolean)
    .join(', ');
  return h(
    'div',
    { 'data-key': `node-${view.name}` },
    h(
      'div',
      { class: 'jp-Kai-Node' },
      h(
        'button',
        {
          type: 'button',
          'data-do': 'fold',
          'data-section': `node-${view.name}`,
          'aria-expanded': String(open)
        },
        icon(open ? 'down' : 'right'),
        h('span', {}, view.name, note ? h('span', { class: 'jp-Kai-Soft' }, ` (${note})`) : null)
      ),
      open ? null : thinBar(view, trans),
      h('span', { class: 'val' }, unbroken(held))
    ),
    open
      ? h(
          'ul',
          { class: 'jp-Kai-Devices', 'aria-label': trans.__('GPUs of %1', view.name) },
          view.devices.map(item => device(item, queues, trans))
        )
      : null
  );
}

function thinBar(view: NodeView, trans: ITrans): HTMLElement {
  const free = view.milli_gpu - view.allocated_milli_gpu;
  const name = trans.__(
    '%1: %2 of %3 held, %4 free',
    view.name,
    gpus(view.allocated_milli_gpu),
    gpus(view.milli_gpu),
    gpus(free)
  );
  return h(
    'span',
    { class: 'jp-Kai-Share thin', role: 'img', 'aria-label': name },
    h('span', { class: 'other', style: `--w: ${view.allocated_milli_gpu}` }),
    free > 0 ? h('span', { class: 'free', style: `--w: ${free}` }) : null
  );
}

function device(view: DeviceView, queues: ReadonlySet<string>, trans: ITrans): HTMLElement {
  const foreign = view.foreign_pids.length > 0 && view.holders.length === 0;
  const holders = foreign
    ? [{ mine: false, queue: trans.__('a process without a lease'), milli: 1000, who: '' }]
    : view.holders;
  return h(
    'li',
    { class: 'jp-Kai-Device' },
    h('span', { class: 'idx' }, view.index),
    shareBar(view.index, holders, queues, trans),
    h('span', { class: 'val' }, gpus(view.allocated_milli))
  );
}

/** A gang of mine in the panel: name, state, squares, one line. */
export function gang(group: PodGroupView, trans: ITrans): HTMLElement {
  const live = group.state === 'Waiting' || group.state === 'Starting' || group.state === 'Running';
  return h(
    'li',
    {
      class: 'jp-Kai-Gang',
      'data-state': group.tone,
      'data-group': `${group.namespace}/${group.name}`,
      'data-key': group.name
    },
    h(
      'p',
      { class: 't' },
      h(
        'button',
        { type: 'button', 'data-do': 'open-tab', title: trans.__('Open %1 in a tab', group.name) },
        group.name
      ),
      state(group.tone, group.icon, group.word)
    ),
    live ? workers(group.pods, null, trans, true) : null,
    h('p', { class: 'l' }, unbroken(group.headline))
  );
}
