/**
 * The page of a lead, as a whole: head, four numbers, what needs a person, the lists, the last day.
 *
 * Rule: sentences are the service's; here are heads of columns, labels of buttons and units. Every button carries what it
 * does in `data-do`; the widget listens once, at its root.
 */

import type { NeedRow, TeamNumber, TeamView, WhatIfView } from '../api/schema';
import {
  changesSection,
  gangsSection,
  leasesSection,
  peopleSection,
  queuesSection
} from './boardLists';
import { passes } from './boardParts';
import { useSection } from './boardUse';
import { waitingSection } from './boardWaiting';
import { whatIfSection } from './boardWhatIf';
import { type Child, h, svg } from './element';
import { icon } from './icons';
import { button, state } from './parts';
import { clock, type ITrans, unbroken } from './words';

/** What the page is drawn with, beside what the service says. */
export type BoardStage = {
  readonly trans: ITrans;
  readonly now: number;
  /** Person or queue, as typed; "" shows all. */
  readonly filter: string;
  /** Lists that are shown whole. */
  readonly open: ReadonlySet<string>;
  readonly whatIf: WhatIfView | null;
  readonly whatIfTrouble: string;
  readonly isAsking: boolean;
  /** Why the service is not heard, "" when it is. */
  readonly offline: string;
  /** What was just done or what went wrong. */
  readonly said: string;
  readonly isTrouble: boolean;
};

/** Return the page. */
export function board(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans } = stage;
  return h(
    'div',
    { class: 'jp-Kai jp-Kai-Board', role: 'region', 'aria-label': view.title },
    top(view, stage),
    stage.offline
      ? h('p', { class: 'away', role: 'alert' }, icon('plug'), ` ${stage.offline}`)
      : null,
    h(
      'p',
      {
        class: 'jp-Kai-Said',
        role: 'status',
        'data-state': stage.isTrouble ? 'stop' : 'ok',
        hidden: stage.said === ''
      },
      stage.said
    ),
    h(
      'section',
      { class: 'four', 'aria-label': trans.__('Four numbers') },
      view.numbers.map(number)
    ),
    needs(view, stage),
    h(
      'div',
      { class: 'cols' },
      h('div', { class: 'stack' }, queuesSection(view, stage), useSection(view, stage)),
      view.may_change && view.led.length > 0 ? whatIfSection(view, stage) : null
    ),
    waitingSection(view, stage),
    peopleSection(view, stage),
    leasesSection(view, stage),
    gangsSection(view, stage),
    changesSection(view, stage)
  );
}

function top(view: TeamView, { trans, filter, now }: BoardStage): HTMLElement {
  const day = new Date(now).toLocaleDateString([], {
    weekday: 'short',
    day: 'numeric',
    month: 'short'
  });
  return h(
    'header',
    { class: 'top' },
    h(
      'div',
      {},
      h('h1', { class: 'title' }, view.title),
      h(
        'p',
        { class: 'jp-Kai-Soft' },
        unbroken(trans.__('%1. %2, %3', view.subtitle, day, clock(now)))
      )
    ),
    h(
      'div',
      { class: 'tools' },
      h(
        'label',
        { class: 'jp-Kai-Search' },
        icon('search'),
        h('span', { class: 'jp-Kai-Sr' }, trans.__('Filter by person or queue')),
        h('input', {
          type: 'search',
          value: filter,
          placeholder: trans.__('Person or queue'),
          'data-pick': 'filter'
        })
      ),
      button('csv', trans.__('CSV'), { icon: 'table', 'data-table': 'waiting' }),
      button('print', trans.__('Print'), { icon: 'page' })
    )
  );
}

function number(item: TeamNumber): HTMLElement {
  const pictures = { up: 'up', down: 'fall', level: 'level', unknown: 'dots' } as const;
  return h(
    'div',
    {},
    h('h2', { class: 'label' }, item.label),
    h('p', { class: 'v' }, item.value, ' ', h('small', {}, unbroken(item.unit))),
    h(
      'p',
      { class: 't' },
      spark(item.points, item.points_text),
      h('span', {}, icon(pictures[item.trend]), ` ${unbroken(item.trend_text)}`)
    )
  );
}

/** A line of a few points; nothing where there are fewer than two. */
export function spark(points: ReadonlyArray<number>, name: string): SVGElement | null {
  if (points.length < 2) {
    return null;
  }
  const least = Math.min(...points);
  const range = Math.max(...points) - least || 1;
  const at = points.map((value, index): readonly [number, number] => [
    (index / (points.length - 1)) * 72,
    16 - ((value - least) / range) * 13
  ]);
  const [x, y] = at[at.length - 1] ?? [0, 0];
  return svg(
    'svg',
    {
      class: 'jp-Kai-Spark',
      width: 76,
      height: 18,
      viewBox: '0 0 76 18',
      role: 'img',
      'aria-label': name
    },
    svg('polyline', { points: at.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(' ') }),
    svg('circle', { cx: x, cy: y.toFixed(1), r: 2 })
  );
}

function needs(view: TeamView, stage: BoardStage): HTMLElement {
  const { trans, filter } = stage;
  const shown = view.needs.filter(need => passes(filter, need.queue, ...need.who));
  return h(
    'section',
    { 'aria-labelledby': 'kai-needs' },
    h(
      'h2',
      { id: 'kai-needs' },
      trans.__('Needs you'),
      ' ',
      h('span', { class: 'jp-Kai-Soft' }, shown.length)
    ),
    shown.length === 0
      ? h(
          'p',
          { class: 'none' },
          trans.__(
            'Nothing does. Stuck requests, idle leases and gangs that can never fit would stand here.'
          )
        )
      : h(
          'ul',
          { class: 'needs' },
          shown.map(need => needRow(need, view, trans))
        )
  );
}

function needRow(need: NeedRow, view: TeamView, trans: ITrans): HTMLElement {
  return h(
    'li',
    { 'data-state': need.tone, 'data-key': `${need.kind} ${need.groups[0] ?? need.queue}` },
    state(need.tone, need.icon, need.word),
    h('p', {}, h('b', {}, unbroken(need.title)), ` ${unbroken(need.text)}`),
    view.may_change ? h('span', { class: 'jp-Kai-Actions' }, needActions(need, trans)) : null
  );
}

function needActions(need: NeedRow, trans: ITrans): Child {
  const groups = need.groups.join(' ');
  const about = { 'data-queue': need.queue, 'data-groups': groups };
  if (need.kind === 'idle') {
    const several = need.groups.length > 1;
    return [
      button(
        'ask',
        several ? trans.__('Ask the owners') : trans.__('Ask %1', need.who[0] ?? ''),
        about
      ),
      button('release', trans.__('Release with a reason'), about)
    ];
  }
  const ask = button('ask', trans.__('Ask %1', need.who[0] ?? ''), about);
  return need.kind === 'late' ? [button('first', trans.__('Put first'), about), ask] : ask;
}
