/** Who waits, with reason and start. On a phone a row becomes three lines; roles in the markup keep it a table. */

import type { TeamView, TeamWaiting } from '../api/schema';
import type { BoardStage } from './board';
import { amount, foldable, menu, passes, table } from './boardParts';
import { type Child, h } from './element';
import { button } from './parts';
import { duration, type ITrans, unbroken } from './words';

export function waitingSection(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans, filter } = stage;
  const rows = view.waiting.filter(row => passes(filter, row.who, row.queue));
  const head = (text: string, look = ''): HTMLElement =>
    h('th', { role: 'columnheader', scope: 'col', class: look || null }, text);
  return foldable('waiting', trans.__('Waiting'), rows, stage, {
    empty: trans.__('Nobody waits.'),
    draw: shown =>
      table(
        trans.__('Table of waiting requests'),
        'tbl waits',
        [
          head(trans.__('Position'), 'num'),
          head(trans.__('Who')),
          head(trans.__('Queue')),
          head(trans.__('Asks, GPUs'), 'num'),
          head(trans.__('Reason'), 'grow'),
          head(trans.__('Waited'), 'num'),
          head(trans.__('Starts in'), 'num'),
          h(
            'th',
            { role: 'columnheader', scope: 'col' },
            h('span', { class: 'jp-Kai-Sr' }, trans.__('Actions'))
          )
        ],
        shown.map(row => waitingRow(row, view, stage))
      )
  });
}

function waitingRow(row: TeamWaiting, view: TeamView, { trans, now }: BoardStage): HTMLElement {
  const cell = (look: string, ...inside: Child[]): HTMLElement =>
    h('td', { role: 'cell', class: look }, inside);
  // The range is the hint; beside so many others the likely time is what is compared.
  const likely = row.eta_text.replace(/ \(.*\)$/, '');
  const starts = row.late ? trans.__('%1, late', likely) : likely;
  return h(
    'tr',
    { role: 'row', 'data-key': `waits ${row.group}` },
    cell('num', row.position),
    h(
      'th',
      { role: 'rowheader', scope: 'row', title: row.name },
      row.who,
      h('small', {}, row.name)
    ),
    cell('queue', row.queue),
    cell('num asks', amount(row.asks), h('span', { class: 'phone' }, ' GPU')),
    cell('grow', unbroken(row.reason)),
    cell(
      'num waited',
      h('span', { class: 'phone' }, trans.__('waited '), ''),
      duration((now - row.since) / 1000)
    ),
    h('td', { role: 'cell', class: 'num when', title: row.eta_text }, unbroken(starts)),
    cell('act', view.may_change ? actions(row, trans) : null)
  );
}

function actions(row: TeamWaiting, trans: ITrans): HTMLElement {
  const about = { 'data-kind': 'plain', 'data-queue': row.queue, 'data-groups': row.group };
  return menu(trans.__('Actions for %1 of %2', row.name, row.who), [
    ...(row.first ? [] : [button('first', trans.__('Put first in %1', row.queue), about)]),
    ...(row.last ? [] : [button('last', trans.__('Put last in %1', row.queue), about)]),
    button('ask', trans.__('Write to %1', row.who), about),
    button('cap', trans.__('Set the most that %1 may hold', row.who), {
      ...about,
      'data-who': row.who
    })
  ]);
}
