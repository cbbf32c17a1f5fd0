/** Use over the last day: what was held and what was asked for, as steps, with a table of the same numbers. */

import type { TeamView } from '../api/schema';
import type { BoardStage } from './board';
import { amount, table } from './boardParts';
import { h, svg } from './element';
import { button, moment } from './parts';
import { clock, gpus, type ITrans } from './words';

const WIDTH = 820;
const HEIGHT = 170;
const LEFT = 28;
const TOP = 10;
const BOTTOM = 22;
const DAY_MS = 86_400_000;
const QUARTER_MS = DAY_MS / 96;

export function useSection(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans, open } = stage;
  const isTable = open.has('use');
  return h(
    'section',
    { 'aria-labelledby': 'kai-use' },
    h('h2', { id: 'kai-use' }, trans.__('Last 24 h')),
    view.use.at.length < 2
      ? h(
          'p',
          { class: 'none' },
          trans.__('The line begins to grow now; a point is kept every quarter of an hour.')
        )
      : isTable
        ? asTable(view, trans)
        : h(
            'div',
            {
              class: 'scroll',
              tabindex: 0,
              role: 'region',
              'aria-label': trans.__('Use over 24 h')
            },
            chart(view, stage.now, trans)
          ),
    view.use.at.length < 2
      ? null
      : h(
          'p',
          { class: 'key' },
          h('span', { 'aria-hidden': 'true' }, h('i', { class: 'al line' }), trans.__('allocated')),
          h('span', { 'aria-hidden': 'true' }, h('i', { class: 'rq line' }), trans.__('requested')),
          button('more', isTable ? trans.__('As a picture') : trans.__('As a table'), {
            'data-kind': 'plain',
            'data-list': 'use',
            icon: 'table'
          })
        )
  );
}

function asTable(view: TeamView, trans: ITrans): HTMLElement {
  const { at, allocated, requested } = view.use;
  return table(
    trans.__('Table of the last 24 hours'),
    'tbl',
    [
      h('th', { scope: 'col' }, trans.__('Time')),
      h('th', { scope: 'col', class: 'num' }, trans.__('Allocated, GPUs')),
      h('th', { scope: 'col', class: 'num' }, trans.__('Requested, GPUs'))
    ],
    at.map((moment_, index) =>
      h(
        'tr',
        {},
        h('td', {}, moment(moment_)),
        h('td', { class: 'num' }, amount(allocated[index] ?? 0)),
        h('td', { class: 'num' }, amount(requested[index] ?? 0))
      )
    )
  );
}

function chart(view: TeamView, now: number, trans: ITrans): SVGElement {
  const { use } = view;
  const most = Math.max(use.capacity, ...use.allocated, ...use.requested, 1000) * 1.08;
  const step =
    [1000, 2000, 4000, 8000, 16000, 32000, 64000].find(size => most / size <= 4) ?? 128_000;
  const begin = now - DAY_MS;
  const x = (at: number): number =>
    LEFT + (Math.max(0, Math.min(DAY_MS, at - begin)) / DAY_MS) * (WIDTH - LEFT);
  const y = (milli: number): number => HEIGHT - BOTTOM - (milli / most) * (HEIGHT - BOTTOM - TOP);
  const lines = Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
  const held = steps(use.at, use.allocated, x, y, now);
  const asked = steps(use.at, use.requested, x, y, now);
  const floor = y(0);
  const first = x(use.at[0] ?? begin);
  const name = trans.__(
    'Allocated GPUs over 24 h, now %1 of %2; requested %3',
    gpus(use.allocated[use.allocated.length - 1] ?? 0),
    gpus(use.capacity),
    gpus(use.requested[use.requested.length - 1] ?? 0)
  );
  return svg(
    'svg',
    { class: 'chart', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': name },
    lines.map(milli => svg('path', { class: 'g', d: `M${LEFT} ${y(milli).toFixed(1)}H${WIDTH}` })),
    lines.map(milli =>
      svg('text', { x: LEFT - 6, y: (y(milli) + 4).toFixed(1), 'text-anchor': 'end' }, gpus(milli))
    ),
    svg('path', { class: 'a', d: `${held}V${floor}H${first.toFixed(1)}Z` }),
    svg('path', { class: 'cap', d: `M${LEFT} ${y(use.capacity).toFixed(1)}H${WIDTH}` }),
    svg('path', { class: 'r', d: asked }),
    svg('path', { class: 'l', d: held }),
    svg(
      'text',
      { x: LEFT + 6, y: (y(use.capacity) - 5).toFixed(1) },
      trans.__('%1 GPUs in all', gpus(use.capacity))
    ),
    hours(begin, now).map(at =>
      svg('text', { x: x(at).toFixed(1), y: HEIGHT - 6, 'text-anchor': 'middle' }, clock(at))
    ),
    svg('text', { x: WIDTH, y: HEIGHT - 6, 'text-anchor': 'end' }, trans.__('now'))
  );
}

/** A path of steps: each value holds until the next. */
function steps(
  at: ReadonlyArray<number>,
  values: ReadonlyArray<number>,
  x: (at: number) => number,
  y: (milli: number) => number,
  now: number
): string {
  const parts = at.map((moment_, index) => {
    const [a, b] = [x(moment_).toFixed(1), y(values[index] ?? 0).toFixed(1)];
    return index === 0 ? `M${a} ${b}` : `H${a}V${b}`;
  });
  const last = Math.min(now, (at[at.length - 1] ?? now) + QUARTER_MS);
  return `${parts.join('')}H${x(last).toFixed(1)}`;
}

/** Every fourth hour of the clock that is not too near to the right end. */
function hours(begin: number, now: number): number[] {
  const first = new Date(begin);
  first.setMinutes(0, 0, 0);
  const found: number[] = [];
  for (let at = first.getTime(); at < now - 5_400_000; at += 3_600_000) {
    if (at > begin + 1_800_000 && new Date(at).getHours() % 4 === 0) {
      found.push(at);
    }
  }
  return found;
}
