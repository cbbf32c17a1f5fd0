/** Asking: choices with a forecast each, before anything is committed. Used by the card of `%gpu` and by the chip's popover. */

import type { ForecastView } from '../api/schema';
import { type Child, h } from './element';
import { button, state, tag } from './parts';
import { gpus, type ITrans, memory, unbroken } from './words';

/** One amount that can be asked for; no forecast yet while it is being asked. */
export type Choice = {
  readonly gpu: string;
  readonly forecast: ForecastView | null;
  readonly chosen?: boolean;
};

/** Return an amount with its unit: "0.5 GPU", "2 GPUs". */
export function amountOf(gpu: string, trans: ITrans): string {
  const milli = Math.round(Number(gpu) * 1000);
  return trans._n('%2\u00a0GPU', '%2\u00a0GPUs', milli > 1000 ? 2 : 1, gpus(milli));
}

/** Return the memory that goes with a choice, or nothing where it is not known. */
export function memoryOf(choice: Choice): string {
  const request = choice.forecast?.request;
  const share = request?.share_mib ?? null;
  return share === null ? '' : memory(share);
}

/** Return the forecast as the service worded it. */
export function when(choice: Choice, trans: ITrans): HTMLElement {
  const forecast = choice.forecast;
  if (forecast === null) {
    return h('span', { class: 'jp-Kai-Soft' }, trans.__('asking …'));
  }
  const tone = forecast.verdict === 'now' ? 'soon' : forecast.verdict === 'never' ? 'never' : null;
  return h('span', { class: tone }, unbroken(forecast.text));
}

function place(forecast: ForecastView | null, trans: ITrans): Child {
  if (forecast?.position == null || forecast.verdict === 'now' || forecast.verdict === 'never') {
    return null;
  }
  const total = (forecast.waiting_in_queue ?? forecast.position - 1) + 1;
  return h(
    'span',
    { class: 'pos' },
    unbroken(trans.__('position %1 of %2', forecast.position, Math.max(total, forecast.position)))
  );
}

/** Return the tag that the GPUs are simulated, where they are. */
export function simulatedTag(choices: ReadonlyArray<Choice>, trans: ITrans): HTMLElement | null {
  const told = choices.some(choice => choice.forecast?.simulated === true);
  return told
    ? h('p', { class: 'jp-Kai-Notes' }, tag('mute', 'level', trans.__('simulated')))
    : null;
}

/** What else can be chosen on the card; empty where there is no choice. */
export type AskOptions = {
  readonly queues: ReadonlyArray<string>;
  readonly durations: ReadonlyArray<string>;
};

/** What is chosen now. */
export type AskPick = {
  readonly gpu: string | null;
  readonly queue: string | null;
  readonly duration: string;
};

/** The line of code that asks for the same. */
export function askCode(gpu: string, pick: AskPick, queues: ReadonlyArray<string>): string {
  const queue =
    pick.queue !== null && queues.length > 1 && pick.queue !== queues[0]
      ? ` --queue ${pick.queue}`
      : '';
  return `%gpu ${gpu}${queue}${pick.duration === '' ? '' : ` --for ${pick.duration}`}`;
}

/** The card that asks. The chosen radio is the person's; `data-do="ask"` sends it. */
export function askCard(
  choices: ReadonlyArray<Choice>,
  pick: AskPick,
  name: string,
  trans: ITrans,
  options: AskOptions = { queues: [], durations: [] }
): HTMLElement {
  const possible = choices.filter(choice => choice.forecast?.verdict !== 'never');
  const picked = pick.gpu ?? choices.find(choice => choice.chosen)?.gpu ?? possible[0]?.gpu ?? null;
  const queue =
    pick.queue ?? choices.find(choice => choice.forecast !== null)?.forecast?.queue ?? null;
  return h(
    'section',
    {
      class: 'jp-Kai jp-Kai-Card',
      role: 'region',
      'data-state': 'mute',
      'aria-label': trans.__('Ask for a GPU share')
    },
    h(
      'header',
      { class: 'jp-Kai-Head' },
      state('mute', 'gpu', trans.__('Ask for a GPU share')),
      queuePart(queue, options.queues, name, trans)
    ),
    h(
      'div',
      { class: 'jp-Kai-Body' },
      h(
        'fieldset',
        { class: 'jp-Kai-Choices' },
        h('legend', { class: 'jp-Kai-Sr' }, trans.__('GPU share, memory and start')),
        choices.map(choice => radio(choice, choice.gpu === picked, name, trans))
      ),
      simulatedTag(choices, trans),
      picked === null ? null : askActions(picked, { ...pick, queue }, name, trans, options)
    )
  );
}

function queuePart(
  queue: string | null,
  queues: ReadonlyArray<string>,
  name: string,
  trans: ITrans
): Child {
  if (queue === null) {
    return null;
  }
  if (queues.length < 2) {
    return h('span', { class: 'jp-Kai-Head-end jp-Kai-Soft' }, trans.__('queue %1', queue));
  }
  const id = `${name}-queue`;
  return h(
    'span',
    { class: 'jp-Kai-Head-end' },
    h('label', { class: 'jp-Kai-Soft', for: id }, trans.__('Queue')),
    h(
      'select',
      { class: 'jp-Kai-Field', id, 'data-pick': 'queue' },
      queues.map(item => h('option', { value: item, selected: item === queue }, item))
    )
  );
}

function askActions(
  picked: string,
  pick: AskPick,
  name: string,
  trans: ITrans,
  { queues, durations }: AskOptions
): HTMLElement {
  const code = askCode(picked, pick, queues);
  const id = `${name}-for`;
  return h(
    'div',
    { class: 'jp-Kai-Actions' },
    button('ask', trans.__('Ask for %1', amountOf(picked, trans)), {
      'data-kind': 'main',
      'data-gpu': picked
    }),
    durations.length > 0 ? h('label', { class: 'jp-Kai-Soft', for: id }, trans.__('for')) : null,
    durations.length > 0
      ? h(
          'select',
          { class: 'jp-Kai-Field', id, 'data-pick': 'duration' },
          durations.map(item =>
            h(
              'option',
              { value: item, selected: item === pick.duration },
              item === ''
                ? trans.__('as long as I need it')
                : item.replace(/(\d)(?=[a-z])/, '$1\u00a0')
            )
          )
        )
      : null,
    h('code', { class: 'jp-Kai-Mono jp-Kai-Soft jp-Kai-Push' }, code),
    button('copy', trans.__('Copy as code'), {
      'data-kind': 'icon',
      icon: 'copy',
      'data-text': code
    })
  );
}

function radio(choice: Choice, checked: boolean, name: string, trans: ITrans): HTMLElement {
  return h(
    'label',
    { class: 'jp-Kai-Choice' },
    h('input', {
      type: 'radio',
      name,
      value: choice.gpu,
      checked,
      disabled: choice.forecast?.verdict === 'never'
    }),
    h('b', {}, amountOf(choice.gpu, trans)),
    h('span', { class: 'mem' }, memoryOf(choice)),
    h('span', {}, when(choice, trans), ' ', place(choice.forecast, trans))
  );
}
