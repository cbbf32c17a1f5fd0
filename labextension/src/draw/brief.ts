/** The card's brief forms: states told in one row, the service away, and a request of an earlier session. */

import type { PodGroupView } from '../api/schema';
import type { CardStage } from './card';
import { h } from './element';
import { button, line, meter, state } from './parts';
import { clock, duration, gpuHours, gpus, type ITrans, unbroken } from './words';

export function shortHead(view: PodGroupView, stage: CardStage): HTMLElement {
  const progress = view.pods[0]?.progress;
  const percent = progress?.total ? (100 * progress.step) / progress.total : null;
  const buttons = view.actions
    .map((action, index) => ({ action, index }))
    .filter(({ action }) => !['why', 'logs', 'smaller', 'switch_queue'].includes(action.id))
    .map(({ action, index }) =>
      button(action.id, action.label, {
        'data-index': index,
        'data-size': 's',
        when: action.eta_text
      })
    );
  const what = view.headline.startsWith(view.word)
    ? view.headline.slice(view.word.length).replace(/^[.:,]? /, '')
    : view.headline;
  return h(
    'header',
    { class: 'jp-Kai-Head' },
    state(view.tone, view.icon, view.word),
    h(
      'span',
      { class: 'jp-Kai-Head-what' },
      unbroken([what, view.detail].filter(Boolean).join(' '))
    ),
    percent === null ? null : meter(percent, stage.trans.__('Starting'), 'run'),
    h('span', { class: 'jp-Kai-Head-end' }, buttons)
  );
}

/** Just released: what was used, and for some seconds the way back. The lease is given back when they are over. */
export function releasedHead(
  view: PodGroupView,
  now: number,
  left_s: number,
  trans: ITrans
): HTMLElement {
  const { whole, fraction_milli } = view.request;
  const held_s = (now - (view.granted_at ?? now)) / 1000;
  const used = gpuHours((held_s * (whole * 1000 + fraction_milli)) / 1000);
  return h(
    'section',
    {
      class: 'jp-Kai jp-Kai-Card jp-Kai-Undo',
      role: 'region',
      'data-state': 'mute',
      'data-group': `${view.namespace}/${view.name}`,
      'aria-label': trans.__('GPU request %1, released, can be undone', view.name)
    },
    h(
      'header',
      { class: 'jp-Kai-Head' },
      state('mute', 'check', trans.__('Released')),
      h('span', { class: 'jp-Kai-Head-what' }, unbroken(trans.__('%1 used', used))),
      h(
        'span',
        { class: 'jp-Kai-Head-end' },
        button('undo', trans.__('Undo'), {
          'data-size': 's',
          icon: 'undo',
          when: trans.__('%1 s', left_s)
        })
      )
    ),
    h('i', { style: `--left: ${left_s}` })
  );
}

export function offlineHead(what: string, { trans }: CardStage): HTMLElement {
  return h(
    'header',
    { class: 'jp-Kai-Head' },
    state('mute', 'plug', trans.__('Offline')),
    h('span', { class: 'jp-Kai-Head-what' }, unbroken(what))
  );
}

export function offlineBody(view: PodGroupView, { trans, offline }: CardStage): HTMLElement {
  const age = duration(offline?.age_s ?? 0);
  const last =
    view.position === null ? view.word.toLowerCase() : trans.__('position %1', view.position);
  const kept =
    view.state === 'Waiting'
      ? trans.__('Your place is kept: the request lives in the service, not in this page.')
      : trans.__('It lives in the service, not in this page.');
  return h(
    'div',
    { class: 'jp-Kai-Body' },
    line(trans.__('The queue does not answer. Last known %1 ago: %2', age, last), kept),
    h(
      'div',
      { class: 'jp-Kai-Actions' },
      button('retry', trans.__('Retry')),
      offline?.retry_s == null
        ? null
        : h(
            'span',
            { class: 'jp-Kai-Soft' },
            trans.__('Trying again in %1', duration(offline.retry_s))
          )
    )
  );
}

/** A card for a saved notebook whose kernel is gone: the last known words, and how to ask again. */
export function earlierSession(text: string, code: string | null, trans: ITrans): HTMLElement {
  return h(
    'section',
    {
      class: 'jp-Kai jp-Kai-Card',
      role: 'region',
      'data-state': 'mute',
      'aria-label': trans.__('From an earlier session')
    },
    h(
      'header',
      { class: 'jp-Kai-Head' },
      state('mute', 'clock', trans.__('Earlier session')),
      h('span', { class: 'jp-Kai-Head-what' }, unbroken(text)),
      code
        ? h(
            'span',
            { class: 'jp-Kai-Head-end' },
            button('copy', trans.__('Copy as code'), { 'data-size': 's', 'data-text': code })
          )
        : null
    )
  );
}

/** What "Copy for support" puts on the clipboard: names, state, reasons and the time line; no secrets are in a view. */
export function supportText(view: PodGroupView): string {
  const lines = [
    `${view.namespace}/${view.name} (${view.kind}, queue ${view.queue}, revision ${view.rev})`,
    `${view.word}: ${view.headline} ${view.detail}`.trim(),
    `Asked ${new Date(view.created_at).toISOString()}, ${gpus(view.request.whole * 1000 + view.request.fraction_milli)} GPU, priority ${view.priority}`,
    view.reason ? `Reason ${view.reason.code}: ${view.reason.text}` : '',
    ...view.timeline.map(entry => `${clock(entry.at)} ${entry.text}`)
  ];
  return lines.filter(Boolean).join('\n');
}
