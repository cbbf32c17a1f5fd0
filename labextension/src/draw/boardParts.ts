/** What the lists of a lead's page are made of: table, menu, a list that opens. */

import { type Child, h } from './element';
import { icon } from './icons';
import { button } from './parts';
import { type ITrans, unbroken } from './words';

/** How many rows a list shows before it is opened. */
export const FEW = 5;

type FoldStage = {
  readonly trans: ITrans;
  readonly open: ReadonlySet<string>;
  readonly filter: string;
};

/** A column of amounts has fixed decimals, so that they can be compared. */
export function amount(milli: number): string {
  return (milli / 1000).toFixed(2);
}

/** Whether something of this person and queue is to be shown. */
export function passes(filter: string, ...texts: string[]): boolean {
  const wanted = filter.trim().toLowerCase();
  return wanted === '' || texts.some(text => text.toLowerCase().includes(wanted));
}

/** A table that scrolls inside its own frame where it is wider than the page. */
export function table(name: string, look: string, heads: Child, rows: Child): HTMLElement {
  return h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name },
    h(
      'table',
      { class: look, role: 'table' },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, heads)),
      h('tbody', { role: 'rowgroup' }, rows)
    )
  );
}

/** What can be done with a row; a native disclosure, so it opens by keyboard and closes with Esc. */
export function menu(name: string, items: ReadonlyArray<HTMLElement>): HTMLElement {
  return h(
    'details',
    { class: 'jp-Kai-Menu' },
    h(
      'summary',
      {
        class: 'jp-Kai-Button',
        'data-kind': 'icon',
        'data-size': 's',
        'aria-label': name,
        title: name
      },
      icon('more')
    ),
    h(
      'ul',
      {},
      items.map(item => h('li', {}, item))
    )
  );
}

/** A list under its head, the first rows of it until it is opened, with its CSV. */
export function foldable<R>(
  id: string,
  title: string,
  rows: ReadonlyArray<R>,
  stage: FoldStage,
  how: {
    readonly empty: string;
    readonly more?: string;
    readonly draw: (rows: ReadonlyArray<R>) => HTMLElement;
  }
): HTMLElement {
  const { trans, open } = stage;
  const isOpen = open.has(id);
  const shown = isOpen ? rows : rows.slice(0, FEW);
  const left = rows.length - shown.length;
  const beside = how.more !== undefined && rows.length > FEW && !isOpen ? how.more : rows.length;
  return h(
    'section',
    { 'aria-labelledby': `kai-${id}` },
    h('h2', { id: `kai-${id}` }, title, ' ', h('span', { class: 'jp-Kai-Soft' }, beside)),
    rows.length === 0 ? h('p', { class: 'none' }, how.empty) : how.draw(shown),
    h(
      'p',
      { class: 'more' },
      left > 0
        ? button('more', unbroken(trans.__('Show %1 more', left)), {
            'data-kind': 'plain',
            'data-list': id
          })
        : isOpen && rows.length > FEW
          ? button('more', trans.__('Show fewer'), { 'data-kind': 'plain', 'data-list': id })
          : null,
      rows.length > 0 && id !== 'gangs'
        ? button('csv', trans.__('CSV of %1', title), {
            'data-kind': 'plain',
            icon: 'table',
            'data-table': id
          })
        : null
    )
  );
}
