/** The body of a gang's card: squares while it waits, ranks and log while it runs, the first failure, the result. */

import type { FailureView, PodGroupView, PodView } from '../api/schema';
import type { CardStage } from './card';
import { type Child, h } from './element';
import { icon } from './icons';
import { button, facts, meter, workers } from './parts';
import { bytes, count, type ITrans, unbroken } from './words';

const CONTEXT_LINES = 2;
/** The worker the others wait for is marked once it is so far behind; less is only the time between two reports. */
const SLOW_STEPS = 10;
const SLOW_PART = 0.02;
const FRAME = /^\s+File /gm;

/** Return what stands between the sentence and the actions of a gang. */
export function gangBody(view: PodGroupView, stage: CardStage): Child {
  const { trans } = stage;
  switch (view.state) {
    case 'Waiting':
    case 'Suspended':
      return [workers(view.pods, null, trans), placesNote(view, trans)];
    case 'Starting':
    case 'Stopping':
      return workers(view.pods, null, trans);
    case 'Running':
      return [
        running(view, trans),
        stage.logs,
        h(
          'p',
          { class: 'jp-Kai-Soft' },
          trans.__('Goes on if you close this page or restart the kernel.')
        )
      ];
    case 'Succeeded':
      return [results(view, trans), logDisclosure(stage, trans)];
    default:
      return [
        workers(view.pods, view.failure?.rank ?? null, trans),
        view.failure ? failure(view.name, view.failure, trans) : null,
        logDisclosure(stage, trans)
      ];
  }
}

/** A gang holds nothing while it waits; the fitting places may go to others. */
function placesNote(view: PodGroupView, trans: ITrans): HTMLElement | null {
  const fitting = view.pods.filter(pod => pod.fits === true).length;
  if (fitting === 0 || fitting === view.pods.length) {
    return null;
  }
  return h(
    'p',
    { class: 'jp-Kai-Soft' },
    trans._n(
      'The %1 place is not held: others may use it until all %2 fit.',
      'The %1 places are not held: others may use them until all %2 fit.',
      fitting,
      view.workers
    )
  );
}

function running(view: PodGroupView, trans: ITrans): HTMLElement {
  const reported = view.pods.some(pod => pod.progress !== null);
  return reported && view.pods.length <= 16
    ? ranks(view.pods, trans)
    : workers(view.pods, null, trans);
}

/** Progress of each worker; the one the others wait for is marked by word and colour. */
function ranks(pods: ReadonlyArray<PodView>, trans: ITrans): HTMLElement {
  const metric = pods.flatMap(pod => Object.keys(pod.progress?.metrics ?? {}))[0] ?? null;
  const steps = pods.map(pod => pod.progress?.step ?? 0);
  const ahead = Math.max(...steps);
  const slowest = pods[steps.indexOf(Math.min(...steps))];
  const lag = ahead - (slowest?.progress?.step ?? 0);
  const slow = lag > Math.max(SLOW_STEPS, ahead * SLOW_PART) ? slowest : null;
  const titles: ReadonlyArray<readonly [string, boolean]> = [
    [trans.__('Rank'), true],
    [trans.__('Device'), false],
    [trans.__('Progress'), false],
    [trans.__('Step'), true],
    ...(metric ? [[metric, true] as const] : [])
  ];
  return h(
    'table',
    { class: 'jp-Kai-Ranks' },
    h('caption', { class: 'jp-Kai-Sr' }, trans.__('Progress of each worker')),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        titles.map(([title, isNumber]) =>
          h('th', { scope: 'col', class: isNumber ? 'num' : null }, title)
        )
      )
    ),
    h(
      'tbody',
      {},
      pods.map(pod => rankRow(pod, metric, pod === slow, trans))
    )
  );
}

function rankRow(pod: PodView, metric: string | null, slow: boolean, trans: ITrans): HTMLElement {
  const device =
    pod.devices.map(({ index }) => trans.__('GPU %1', index)).join(', ') || trans.__('CPU');
  return h(
    'tr',
    { class: slow ? 'slow' : null, 'data-key': pod.rank },
    h('th', { scope: 'row', class: 'num' }, pod.rank),
    h('td', {}, pod.node ? `${pod.node}, ${unbroken(device)}` : unbroken(device)),
    progressCells(pod, slow, trans),
    metric === null
      ? null
      : h('td', { class: 'num' }, pod.progress?.metrics[metric]?.toPrecision(4))
  );
}

function progressCells(pod: PodView, slow: boolean, trans: ITrans): Child {
  const progress = pod.progress;
  if (progress === null) {
    return [h('td', { class: 'bar' }), h('td', { class: 'num' })];
  }
  const { step, total } = progress;
  const bar = total
    ? meter((100 * step) / total, trans.__('Rank %1', pod.rank), slow ? 'wait' : 'run')
    : null;
  const behind = slow ? h('span', { class: 'jp-Kai-Sr' }, trans.__(', behind')) : null;
  return [h('td', { class: 'bar' }, bar), h('td', { class: 'num' }, count(step), behind)];
}

/** The first failure on top, at the line of the cell where it happened. */
function failure(gang: string, told: FailureView, trans: ITrans): HTMLElement {
  const where =
    told.cell_line === null
      ? trans.__('Worker %1', told.rank)
      : trans.__('Line %1 of the cell, worker %2', told.cell_line, told.rank);
  const frames = told.traceback.match(FRAME)?.length ?? 0;
  return h(
    'div',
    { class: 'jp-Kai-Trace' },
    h(
      'p',
      { class: 't' },
      h('b', {}, icon('pin'), ` ${where}`),
      told.cell_line === null
        ? null
        : button('go-to-line', trans.__('Go to the line'), {
            'data-size': 's',
            'data-line': told.cell_line
          })
    ),
    code(gang, told, trans),
    h('p', { class: 'e' }, told.message),
    told.traceback
      ? h(
          'details',
          { class: 'jp-Kai-Disclosure' },
          h(
            'summary',
            {},
            icon('right'),
            ` ${frames > 0 ? trans._n('Whole traceback, %1 frame', 'Whole traceback, %1 frames', frames, frames) : trans.__('Whole traceback')}`
          ),
          h(
            'pre',
            {
              class: 'jp-Kai-Code',
              tabindex: 0,
              role: 'region',
              'aria-label': trans.__('Whole traceback of %1', gang)
            },
            told.traceback
          )
        )
      : null
  );
}

function code(gang: string, told: FailureView, trans: ITrans): HTMLElement | null {
  if (told.source === null || told.cell_line === null) {
    return null;
  }
  const failed = told.cell_line;
  const all = told.source.trimEnd().split('\n');
  const first = Math.max(1, failed - CONTEXT_LINES);
  const last = Math.min(all.length, failed + CONTEXT_LINES);
  const rows = all.slice(first - 1, last).map((text, offset) => {
    const number = first + offset;
    const content = [h('span', { class: 'ln' }, number), text];
    return number === failed ? [h('mark', {}, content), '\n'] : [content, '\n'];
  });
  const name = trans.__('The cell of %1, lines %2 to %3', gang, first, last);
  return h('pre', { class: 'jp-Kai-Code', tabindex: 0, role: 'region', 'aria-label': name }, rows);
}

/** What came back, and the line of code that fetches it. */
function results(view: PodGroupView, trans: ITrans): HTMLElement {
  const known = view.actions.find(({ id }) => id === 'result')?.code;
  const fetches = known ?? (view.results.length > 0 ? `%gang result ${view.name}` : null);
  return h(
    'div',
    { class: 'jp-Kai-Results' },
    view.results.length > 0
      ? facts(
          ...view.results.map(
            item =>
              [
                item.name,
                [
                  h('span', { class: 'jp-Kai-Mono' }, item.text),
                  ' ',
                  h('span', { class: 'jp-Kai-Soft' }, `(${bytes(item.size)})`)
                ]
              ] as const
          )
        )
      : null,
    fetches
      ? h(
          'div',
          { class: 'jp-Kai-Actions' },
          h('code', { class: 'jp-Kai-Snippet' }, fetches),
          button('copy', trans.__('Copy'), { icon: 'copy', 'data-text': fetches }),
          button('insert-cell', trans.__('Insert a cell below'), {
            'data-kind': 'main',
            'data-text': fetches
          })
        )
      : null
  );
}

function logDisclosure(stage: CardStage, trans: ITrans): HTMLElement | null {
  if (stage.logs === null) {
    return null;
  }
  return h(
    'details',
    { class: 'jp-Kai-Disclosure', 'data-key': 'log' },
    h('summary', {}, icon('right'), ` ${trans.__('Log')}`),
    stage.logs
  );
}
