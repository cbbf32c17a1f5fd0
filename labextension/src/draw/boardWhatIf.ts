/** Lending quota: the sentence to fill in, who gains and who pays, the reason, and the one main button of the page. */

import type { BeforeAfter, TeamView, WhatIfView } from '../api/schema';
import type { BoardStage } from './board';
import { amount } from './boardParts';
import { type Child, h } from './element';
import { button, facts, line } from './parts';
import { type ITrans, unbroken } from './words';

export function whatIfSection(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans } = stage;
  const leaves = view.queues.filter(queue => queue.is_leaf && queue.quota !== null);
  const givers = leaves.filter(queue => queue.leads && (queue.quota ?? 0) > 0);
  const takers = leaves;
  const isPossible = givers.length > 0 && takers.length > 1;
  return h(
    'section',
    { 'aria-labelledby': 'kai-whatif', class: 'whatif', 'aria-busy': stage.isAsking },
    h('h2', { id: 'kai-whatif' }, trans.__('What if')),
    isPossible
      ? h(
          'form',
          { 'data-do': 'lend' },
          sentence(
            givers.map(queue => queue.name),
            takers.map(queue => queue.name),
            stage
          ),
          stage.whatIfTrouble
            ? h('p', { class: 'trouble', role: 'alert' }, stage.whatIfTrouble)
            : null,
          stage.whatIf === null ? null : effect(stage.whatIf, trans),
          h(
            'label',
            { class: 'reason', for: 'kai-lend-reason' },
            trans.__('Reason, shown to those concerned')
          ),
          h('input', {
            class: 'jp-Kai-Field',
            id: 'kai-lend-reason',
            name: 'reason',
            required: true,
            maxlength: 300
          }),
          h(
            'p',
            { class: 'jp-Kai-Actions' },
            h(
              'button',
              { class: 'jp-Kai-Button', 'data-kind': 'main', type: 'submit' },
              trans.__('Lend')
            ),
            h('span', { class: 'jp-Kai-Soft' }, trans.__('You can take it back at any time.'))
          )
        )
      : h(
          'p',
          { class: 'none' },
          trans.__(
            'Quota can be lent where a queue that you lead has some and another queue is there.'
          )
        )
  );
}

function sentence(
  givers: ReadonlyArray<string>,
  takers: ReadonlyArray<string>,
  { trans }: BoardStage
): HTMLElement {
  const choice = (
    name: string,
    options: ReadonlyArray<string>,
    chosen: string | undefined
  ): HTMLElement =>
    h(
      'select',
      { class: 'jp-Kai-Field', id: `kai-lend-${name}`, name },
      options.map(option => h('option', { value: option, selected: option === chosen }, option))
    );
  const other = takers.find(name => name !== givers[0]);
  return h(
    'p',
    { class: 'say' },
    h('label', { for: 'kai-lend-gpu' }, trans.__('Lend')),
    ' ',
    h('input', {
      class: 'jp-Kai-Field n',
      id: 'kai-lend-gpu',
      name: 'gpu',
      value: '1',
      inputmode: 'decimal',
      required: true
    }),
    ` ${trans.__('GPUs of quota')} `,
    h(
      'span',
      {},
      h('label', { for: 'kai-lend-from' }, trans.__('from')),
      ' ',
      choice('from', givers, givers[0])
    ),
    ' ',
    h(
      'span',
      {},
      h('label', { for: 'kai-lend-to' }, trans.__('to')),
      ' ',
      choice('to', takers, other)
    ),
    ' ',
    h(
      'span',
      {},
      h('label', { for: 'kai-lend-until' }, trans.__('until')),
      ' ',
      h('input', {
        class: 'jp-Kai-Field u',
        id: 'kai-lend-until',
        name: 'until',
        type: 'time',
        value: '18:00',
        required: true
      })
    )
  );
}

/** What a change would do: the sentence, both sides before and after, who gains and who pays. */
export function effect(seen: WhatIfView, trans: ITrans): Child {
  const rows = seen.queues.filter(row => row.before_milli > 0 || row.after_milli > 0);
  const list = (lines: ReadonlyArray<string>): Child =>
    lines.map((text, index) => [index > 0 ? '; ' : null, unbroken(text)]);
  return [
    line(seen.headline, seen.detail),
    rows.length === 0 ? null : beforeAfter(rows, trans),
    facts(
      seen.gains.length === 0 ? null : [trans.__('Gains'), list(seen.gains)],
      seen.pays.length === 0 ? null : [trans.__('Pays'), list(seen.pays)],
      seen.risk === '' ? null : [trans.__('Risk'), unbroken(seen.risk)]
    )
  ];
}

function beforeAfter(rows: ReadonlyArray<BeforeAfter>, trans: ITrans): HTMLElement {
  const most = Math.max(...rows.flatMap(row => [row.before_milli, row.after_milli]));
  const share = (milli: number): string => `--v: ${((milli / most) * 100).toFixed(1)}%`;
  return h(
    'table',
    { class: 'ba' },
    h('caption', { class: 'jp-Kai-Sr' }, trans.__('Before and after')),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        h('th', { scope: 'col' }, trans.__('Allocated, GPUs')),
        h('th', { scope: 'col', class: 'num' }, trans.__('Before')),
        h('th', { scope: 'col', class: 'num' }, trans.__('After')),
        h('th', { scope: 'col' }, h('span', { class: 'jp-Kai-Sr' }, trans.__('Difference')))
      )
    ),
    h(
      'tbody',
      {},
      rows.map(row =>
        h(
          'tr',
          {},
          h('th', { scope: 'row' }, row.queue),
          h('td', { class: 'num' }, amount(row.before_milli)),
          h('td', { class: 'num' }, amount(row.after_milli)),
          h(
            'td',
            {},
            h(
              'span',
              { class: 'pair', 'aria-hidden': 'true' },
              h('i', { style: share(row.before_milli) }),
              h('i', { class: 'aft', style: share(row.after_milli) })
            ),
            h('span', { class: 'd' }, row.delta_text)
          )
        )
      )
    )
  );
}

/** The button of the dialog that confirms a change, and the one that does not. */
export function confirmation(verb: string, trans: ITrans): HTMLElement {
  return h(
    'p',
    { class: 'jp-Kai-Actions' },
    button('close', trans.__('Cancel')),
    h('button', { class: 'jp-Kai-Button', 'data-kind': 'main', type: 'submit' }, verb)
  );
}
