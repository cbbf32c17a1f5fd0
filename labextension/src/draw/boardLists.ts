/** The lists of a lead's page: queues with their bars, people, leases, gangs, changes. */

import type { ChangeView, GangRow, LeaseRow, PersonRow, TeamQueue, TeamView } from '../api/schema';
import type { BoardStage } from './board';
import { amount, foldable, menu, passes, table } from './boardParts';
import { type Child, h } from './element';
import { button, meter, moment, state } from './parts';
import { duration, gpus, type ITrans, unbroken } from './words';

// -- queues ------------------------------------------------------------------------------------
export function queuesSection(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans, filter } = stage;
  const named = view.queues.filter(queue => passes(filter, queue.name));
  const shown = named.length > 0 ? named : view.queues;
  const most = Math.max(
    1000,
    ...shown.flatMap(q => [q.allocated, q.requested, q.quota ?? 0, q.limit ?? 0])
  );
  const end = axisEnd(most);
  const heads: Child[] = [
    h('th', { scope: 'col' }, trans.__('Queue')),
    h('th', { scope: 'col', class: 'q' }, trans.__('GPUs'), ' ', axis(end)),
    ...[
      trans.__('Allocated'),
      trans.__('Quota'),
      trans.__('Fair share'),
      trans.__('Requested'),
      trans.__('Limit')
    ].map(text => h('th', { scope: 'col', class: 'num' }, text)),
    h('th', { scope: 'col' }, h('span', { class: 'jp-Kai-Sr' }, trans.__('Actions')))
  ];
  return h(
    'section',
    { 'aria-labelledby': 'kai-queues' },
    h('h2', { id: 'kai-queues' }, trans.__('Queues')),
    key(trans),
    table(
      trans.__('Table of queues'),
      'tbl',
      heads,
      shown.map(queue => queueRow(queue, end, view, trans))
    )
  );
}

function key(trans: ITrans): HTMLElement {
  const part = (name: string, text: string): HTMLElement =>
    h('span', {}, h('i', { class: name }), text);
  return h(
    'p',
    { class: 'key', 'aria-hidden': 'true' },
    part('al', trans.__('allocated')),
    part('bo', trans.__('borrowed, above quota')),
    part('rq', trans.__('requested')),
    part('qm', trans.__('quota')),
    part('fm', trans.__('fair share')),
    part('lm', trans.__('limit'))
  );
}

/** A round end of the axis, so that nothing stands at the very edge. */
function axisEnd(most: number): number {
  const step = axisStep(most * 1.06);
  return Math.ceil((most * 1.06) / step) * step;
}

function axisStep(most: number): number {
  const steps = [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 512000];
  return steps.find(step => most / step <= 5) ?? 1024000;
}

function axis(end: number): HTMLElement {
  const step = axisStep(end);
  const marks = Array.from({ length: Math.ceil(end / step) }, (_, index) => index * step);
  return h(
    'span',
    { class: 'axis', 'aria-hidden': 'true' },
    marks.map(mark => h('i', { style: `--x: ${((mark / end) * 100).toFixed(2)}%` }, gpus(mark)))
  );
}

function queueRow(queue: TeamQueue, end: number, view: TeamView, trans: ITrans): HTMLElement {
  const bound = (milli: number | null): string =>
    milli === null ? trans.__('none') : amount(milli);
  return h(
    'tr',
    { 'data-key': `queue ${queue.name}` },
    h(
      'th',
      { scope: 'row', class: 'first sub', style: `--in: ${queue.depth * 12}px` },
      h('b', { title: queue.name }, queue.name),
      h('small', {}, unbroken(queue.sentence))
    ),
    h('td', { class: 'q' }, bar(queue, end, trans)),
    h('td', { class: 'num' }, amount(queue.allocated)),
    h('td', { class: 'num' }, bound(queue.quota)),
    h('td', { class: 'num' }, amount(queue.fair_share)),
    h('td', { class: 'num' }, amount(queue.requested)),
    h('td', { class: 'num' }, bound(queue.limit)),
    h('td', { class: 'act' }, queueMenu(queue, view, trans))
  );
}

function queueMenu(queue: TeamQueue, view: TeamView, trans: ITrans): Child {
  if (!queue.leads || !view.may_change || queue.drained) {
    return null;
  }
  return menu(trans.__('Actions for queue %1', queue.name), [
    button('drain', trans.__('Drain: start nothing new'), {
      'data-kind': 'plain',
      'data-queue': queue.name
    })
  ]);
}

function bar(queue: TeamQueue, end: number, trans: ITrans): HTMLElement {
  const at = (milli: number): string => `${((milli / end) * 100).toFixed(2)}%`;
  const quota = queue.quota ?? Number.POSITIVE_INFINITY;
  const own = Math.min(queue.allocated, quota);
  const name = trans.__(
    '%1: %2 GPUs allocated, quota %3, fair share %4, %5 requested, limit %6',
    queue.name,
    gpus(queue.allocated),
    queue.quota === null ? trans.__('none') : gpus(queue.quota),
    gpus(queue.fair_share),
    gpus(queue.requested),
    queue.limit === null ? trans.__('none') : gpus(queue.limit)
  );
  const part = (kind: string, from: number, to?: number): HTMLElement =>
    h('i', { class: kind, style: `--a: ${at(from)}${to === undefined ? '' : `; --b: ${at(to)}`}` });
  return h(
    'span',
    { class: 'jp-Kai-QBar', role: 'img', 'aria-label': name },
    queue.requested > queue.allocated ? part('rq', 0, queue.requested) : null,
    own > 0 ? part('al', 0, own) : null,
    queue.borrowed > 0 ? part('bo', own, queue.allocated) : null,
    queue.quota === null ? null : part('qm', queue.quota),
    part('fm', queue.fair_share),
    queue.limit === null ? null : part('lm', queue.limit)
  );
}

// -- people ------------------------------------------------------------------------------------
export function peopleSection(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans, filter } = stage;
  const rows = view.people.filter(row => passes(filter, row.who, row.queue));
  return foldable('people', trans.__('People'), rows, stage, {
    empty: trans.__('Nobody holds or waits for anything here today.'),
    more: trans.__('%1 of %2 hold most', Math.min(5, rows.length), view.people_count),
    draw: shown =>
      table(
        trans.__('Table of people'),
        'tbl',
        [
          h('th', { scope: 'col' }, trans.__('Who')),
          h('th', { scope: 'col' }, trans.__('Queue')),
          h('th', { scope: 'col', class: 'num' }, trans.__('Holds, GPUs')),
          h('th', { scope: 'col', class: 'num' }, trans.__('Since')),
          h('th', { scope: 'col', class: 'num' }, trans.__('Idle')),
          h('th', { scope: 'col' }, trans.__('GPU busy now')),
          h('th', { scope: 'col', class: 'num' }, trans.__('Today, GPU-hours')),
          h('th', { scope: 'col' }, h('span', { class: 'jp-Kai-Sr' }, trans.__('Actions')))
        ],
        shown.map(row => personRow(row, view, trans))
      )
  });
}

function personRow(row: PersonRow, view: TeamView, trans: ITrans): HTMLElement {
  const cap = row.cap === null ? null : h('small', {}, trans.__('at most %1', gpus(row.cap)));
  return h(
    'tr',
    { 'data-key': `person ${row.who} ${row.queue}` },
    h('th', { scope: 'row', class: 'name', title: row.who }, row.who),
    h('td', {}, row.queue),
    h('td', { class: 'num' }, amount(row.holds), cap),
    h('td', { class: 'num' }, row.since === null ? '–' : moment(row.since)),
    h('td', { class: 'num' }, percent(row.idle_percent, trans)),
    h('td', { class: 'm' }, busy(row, trans)),
    h('td', { class: 'num' }, (row.today_milli_hours / 1000).toFixed(1)),
    h(
      'td',
      { class: 'act' },
      view.may_change
        ? menu(trans.__('Actions for %1', row.who), [
            button('cap', trans.__('Set the most that %1 may hold', row.who), {
              'data-kind': 'plain',
              'data-queue': row.queue,
              'data-who': row.who
            })
          ])
        : null
    )
  );
}

function percent(value: number | null, trans: ITrans): Child {
  return value === null
    ? h('span', { title: trans.__('Not measured here') }, '–')
    : `${value}\u00a0%`;
}

function busy(row: PersonRow, trans: ITrans): Child {
  if (row.busy_percent === null) {
    return h('span', { class: 'jp-Kai-Soft' }, trans.__('not measured'));
  }
  return [
    meter(row.busy_percent, trans.__('%1 busy', row.who), 'run'),
    h('span', { class: 'jp-Kai-Num' }, `${row.busy_percent}\u00a0%`)
  ];
}

// -- leases ------------------------------------------------------------------------------------
export function leasesSection(view: TeamView, stage: BoardStage): HTMLElement | null {
  const { trans, filter } = stage;
  const rows = view.leases.filter(row => passes(filter, row.who, row.queue));
  return rows.length === 0
    ? null
    : foldable('leases', trans.__('Leases'), rows, stage, {
        empty: '',
        draw: shown =>
          table(
            trans.__('Table of leases'),
            'tbl',
            [
              h('th', { scope: 'col' }, trans.__('Who')),
              h('th', { scope: 'col' }, trans.__('Queue')),
              h('th', { scope: 'col', class: 'grow' }, trans.__('Name')),
              h('th', { scope: 'col', class: 'num' }, trans.__('Holds, GPUs')),
              h('th', { scope: 'col', class: 'num' }, trans.__('Since')),
              h('th', { scope: 'col', class: 'num' }, trans.__('Idle for')),
              h('th', { scope: 'col' }, h('span', { class: 'jp-Kai-Sr' }, trans.__('Actions')))
            ],
            shown.map(row => leaseRow(row, view, trans))
          )
      });
}

function leaseRow(row: LeaseRow, view: TeamView, trans: ITrans): HTMLElement {
  const about = { 'data-kind': 'plain', 'data-queue': row.queue, 'data-groups': row.group };
  return h(
    'tr',
    { 'data-key': `lease ${row.group}` },
    h('th', { scope: 'row', class: 'name', title: row.who }, row.who),
    h('td', {}, row.queue),
    h('td', { class: 'grow' }, row.name),
    h('td', { class: 'num' }, amount(row.holds)),
    h('td', { class: 'num' }, moment(row.since)),
    h('td', { class: 'num' }, row.idle_ms === null ? '–' : duration(row.idle_ms / 1000)),
    h(
      'td',
      { class: 'act' },
      view.may_change
        ? menu(trans.__('Actions for %1 of %2', row.name, row.who), [
            button('ask', trans.__('Ask %1 to release it', row.who), about),
            button('release', trans.__('Release with a reason'), about)
          ])
        : null
    )
  );
}

// -- gangs -------------------------------------------------------------------------------------
export function gangsSection(view: TeamView, stage: BoardStage): HTMLElement | null {
  const { trans, filter } = stage;
  const rows = view.gangs.filter(row => passes(filter, row.who, row.queue));
  return rows.length === 0
    ? null
    : foldable('gangs', trans.__('Gangs'), rows, stage, {
        empty: '',
        draw: shown =>
          table(
            trans.__('Table of gangs'),
            'tbl',
            [
              h('th', { scope: 'col' }, trans.__('Gang')),
              h('th', { scope: 'col' }, trans.__('Who')),
              h('th', { scope: 'col' }, trans.__('Queue')),
              h('th', { scope: 'col', class: 'num' }, trans.__('Workers')),
              h('th', { scope: 'col' }, trans.__('State')),
              h('th', { scope: 'col', class: 'grow' }, trans.__('Standing'))
            ],
            shown.map(row => gangRow(row, trans))
          )
      });
}

function gangRow(row: GangRow, trans: ITrans): HTMLElement {
  return h(
    'tr',
    { 'data-key': `gang ${row.group}` },
    h('th', { scope: 'row', class: 'name', title: row.name }, row.name),
    h('td', {}, row.who),
    h('td', {}, row.queue),
    h('td', { class: 'num' }, trans.__('%1 of %2', row.running, row.workers)),
    h('td', {}, state(row.tone, row.icon, row.word)),
    h('td', { class: 'grow' }, unbroken(row.sentence))
  );
}

// -- changes -----------------------------------------------------------------------------------
export function changesSection(view: TeamView, stage: BoardStage): HTMLElement | null {
  const { trans } = stage;
  const rows = view.changes;
  return rows.length === 0
    ? null
    : foldable('changes', trans.__('Changes'), rows, stage, {
        empty: '',
        draw: shown =>
          table(
            trans.__('Table of changes'),
            'tbl',
            [
              h('th', { scope: 'col' }, trans.__('When')),
              h('th', { scope: 'col' }, trans.__('By')),
              h('th', { scope: 'col', class: 'grow' }, trans.__('What and why')),
              h('th', { scope: 'col' }, trans.__('Until')),
              h('th', { scope: 'col' }, h('span', { class: 'jp-Kai-Sr' }, trans.__('Actions')))
            ],
            shown.map(row => changeRow(row, trans))
          )
      });
}

function changeRow(row: ChangeView, trans: ITrans): HTMLElement {
  return h(
    'tr',
    { 'data-key': `change ${row.id}` },
    h('td', {}, moment(row.at)),
    h('th', { scope: 'row', class: 'name', title: row.by }, row.by),
    h('td', { class: 'grow' }, unbroken(row.text), h('small', {}, row.reason)),
    h('td', {}, untilWords(row, trans)),
    h(
      'td',
      { class: 'act' },
      row.may_undo
        ? button('undo', trans.__('Take back'), {
            'data-size': 's',
            'data-number': row.id,
            'data-text': row.text,
            'aria-label': trans.__('Take back: %1', row.text)
          })
        : null
    )
  );
}

function untilWords(row: ChangeView, trans: ITrans): Child {
  if (row.in_force) {
    return row.until === null ? trans.__('taken back') : moment(row.until);
  }
  if (row.ended_by) {
    return [trans.__('taken back by %1', row.ended_by), h('small', {}, row.ended_why)];
  }
  return trans.__('done');
}
