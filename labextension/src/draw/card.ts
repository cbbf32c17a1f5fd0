/**
 * The card of one pod group, in every state: the same order everywhere — state, sentence, picture, offers, actions.
 *
 * Rule: headline, detail, word, tone, icon and actions are the service's; the card only places them.
 */

import type { ActionView, ExplainView, NodeView, PodGroupView } from '../api/schema';
import { offlineBody, offlineHead, shortHead } from './brief';
import { headlineAt } from './countdown';
import { type Child, h } from './element';
import { gangBody } from './gang';
import { icon } from './icons';
import { leaseFacts, notes } from './lease';
import { button, etaTrack, line, moment, offer, reasons, state } from './parts';
import { renamed } from './regions';
import { type ITrans, memory, unbroken } from './words';

/** What the card is drawn with, beside the group itself. */
export type CardStage = {
  readonly trans: ITrans;
  /** The service's clock, in ms. */
  readonly now: number;
  /** Set while the service does not answer: how old the numbers are, and when it is asked again. */
  readonly offline: { readonly age_s: number; readonly retry_s: number | null } | null;
  /** The reasons, once they were asked for. */
  readonly why: ExplainView | 'loading' | null;
  readonly nodes: ReadonlyArray<NodeView>;
  /** The log view of a gang; it draws itself. */
  readonly logs: HTMLElement | null;
  /** "tab" fills the page, "cell" stands under a cell. */
  readonly place: 'cell' | 'tab';
  /** Whether a click on "Notify me" would do something. */
  readonly mayNotify: boolean;
};

const LIVE = ['Waiting', 'Starting', 'Running', 'Stopping', 'Suspended'];

/** Whether the group still waits, holds or will hold something. */
export function isLive(view: PodGroupView): boolean {
  return LIVE.includes(view.state);
}

/** Whether the person should act, so that the card gets a coloured border. */
function needsAttention(view: PodGroupView): boolean {
  return view.tone === 'stop' || (view.tone === 'wait' && view.icon === 'moon');
}

/** States told in one row. A wait, a grant, a loss and a refusal have more to say. */
function isShort(view: PodGroupView): boolean {
  if (view.kind === 'gang') {
    return view.state === 'Cancelled';
  }
  return (
    view.state === 'Starting' ||
    view.state === 'Stopping' ||
    view.state === 'Cancelled' ||
    view.state === 'Succeeded'
  );
}

/** Return the card of a group. */
export function card(view: PodGroupView, stage: CardStage): HTMLElement {
  const drawn = section(view, stage);
  return stage.place === 'tab'
    ? renamed(drawn, name => stage.trans.__('%1, in its tab', name))
    : drawn;
}

function section(view: PodGroupView, given: CardStage): HTMLElement {
  // Reasons are about waiting; once it has started they are history.
  const stage = view.state === 'Waiting' ? given : { ...given, why: null };
  const { trans } = stage;
  const kind =
    view.kind === 'gang' ? trans.__('Gang %1', view.name) : trans.__('GPU request %1', view.name);
  const root = {
    class: 'jp-Kai jp-Kai-Card',
    role: 'region',
    'data-state': stage.offline ? 'mute' : view.tone,
    'data-attention': !stage.offline && needsAttention(view),
    'data-group': `${view.namespace}/${view.name}`,
    'data-place': stage.place,
    'aria-label': trans.__('%1, %2', kind, stage.offline ? trans.__('offline') : view.word)
  };
  if (stage.offline) {
    return h(
      'section',
      root,
      offlineHead(whatOf(view, stage.trans), stage),
      offlineBody(view, stage)
    );
  }
  if (isShort(view)) {
    return h('section', root, shortHead(view, stage));
  }
  return h('section', root, head(view, stage), body(view, stage));
}

/** Name, amount and queue: what the card is about. */
export function whatOf(view: PodGroupView, trans: ITrans): string {
  const { request } = view;
  const amount = view.kind === 'gang' ? gangAmount(view, trans) : request.text;
  const share = request.share_mib === null ? '' : memory(request.share_mib);
  if (view.kind === 'gang') {
    return share
      ? trans.__('%1, %2 (%3), queue %4', view.name, amount, share, view.queue)
      : trans.__('%1, %2, queue %3', view.name, amount, view.queue);
  }
  return share && request.fraction_milli > 0
    ? trans.__('%1, %2 memory share, queue %3', amount, share, view.queue)
    : trans.__('%1, queue %2', amount, view.queue);
}

function gangAmount(view: PodGroupView, trans: ITrans): string {
  return trans._n('%1 worker × %2', '%1 workers × %2', view.workers, view.request.text);
}

/** A granted lease says in its sentence what it is; its detail (queue, wait) stands in the head. */
function isGranted(view: PodGroupView): boolean {
  return view.kind !== 'gang' && view.tone === 'ok' && view.state === 'Running';
}

function headWhat(view: PodGroupView, trans: ITrans): string {
  if (isGranted(view)) {
    return `${view.detail.slice(0, 1).toLowerCase()}${view.detail.slice(1).replace(/\.$/, '')}`;
  }
  return whatOf(view, trans);
}

function head(view: PodGroupView, stage: CardStage): HTMLElement {
  const { trans } = stage;
  const openable = view.kind === 'gang' && stage.place === 'cell' && stage.nodes.length > 0;
  return h(
    'header',
    { class: 'jp-Kai-Head' },
    state(view.tone, view.icon, view.word),
    h('span', { class: 'jp-Kai-Head-what' }, unbroken(headWhat(view, trans))),
    h(
      'span',
      { class: 'jp-Kai-Head-end' },
      openable
        ? button('open-tab', trans.__('Open in a tab'), { 'data-size': 's', icon: 'link' })
        : null,
      menu(view, trans)
    )
  );
}

/** Everything that is rarely wanted; a native disclosure, so it opens by keyboard and closes with Esc. */
function menu(view: PodGroupView, trans: ITrans): HTMLElement {
  const name =
    view.kind === 'gang'
      ? trans.__('More for %1', view.name)
      : trans.__('More for %1 of %2', view.request.text, view.name);
  const code = view.actions.find(action => action.code !== null)?.code;
  return h(
    'details',
    { class: 'jp-Kai-Menu' },
    h(
      'summary',
      { class: 'jp-Kai-Button', 'data-kind': 'icon', 'aria-label': name, title: name },
      icon('more')
    ),
    h(
      'ul',
      {},
      code
        ? h(
            'li',
            {},
            button('copy', trans.__('Copy as code'), { 'data-kind': 'plain', 'data-text': code })
          )
        : null,
      h('li', {}, button('copy-support', trans.__('Copy for support'), { 'data-kind': 'plain' })),
      h('li', {}, button('open-panel', trans.__('Show in the panel'), { 'data-kind': 'plain' }))
    )
  );
}

function body(view: PodGroupView, stage: CardStage): HTMLElement {
  const { trans } = stage;
  const offers = offersOf(view);
  const parts: Child[] = [line(headlineAt(view, stage.now), isGranted(view) ? '' : view.detail)];
  if (view.state === 'Waiting' && stage.why === null) {
    parts.push(etaTrack(view.eta, stage.now, trans));
  }
  if (view.kind === 'gang') {
    parts.push(gangBody(view, stage));
  } else if (view.tone !== 'stop' && view.state === 'Running') {
    parts.push(leaseFacts(view, stage));
  }
  if (stage.why !== null) {
    parts.push(whyPart(stage.why, trans), timeLine(view, trans));
  } else if (offers.length > 0) {
    parts.push(offerRows(view, offers, trans));
  }
  parts.push(notes(view), actions(view, stage));
  return h('div', { class: 'jp-Kai-Body' }, parts);
}

type Indexed = { readonly action: ActionView; readonly index: number };

/** Offers stand in rows while the request waits or was refused; after a loss they are buttons. */
function offersOf(view: PodGroupView): ReadonlyArray<Indexed> {
  const indexed = view.actions.map((action, index) => ({ action, index }));
  const rows = view.state === 'Waiting' || view.icon === 'octagon' || view.failure !== null;
  return rows
    ? indexed.filter(({ action }) => action.id === 'smaller' || action.id === 'switch_queue')
    : [];
}

function offerRows(view: PodGroupView, offers: ReadonlyArray<Indexed>, trans: ITrans): HTMLElement {
  const waits = view.state === 'Waiting' && view.icon !== 'octagon';
  const verb = waits ? trans.__('Switch') : trans.__('Ask this');
  const title = waits ? trans.__('Smaller and sooner') : trans.__('What would fit');
  return h(
    'div',
    {},
    h('p', { class: 'jp-Kai-Sub' }, title),
    h(
      'ul',
      { class: 'jp-Kai-Rows' },
      offers.map(({ action, index }) => offer(action, index, verb, action.label))
    )
  );
}

function whyPart(why: ExplainView | 'loading', trans: ITrans): HTMLElement {
  if (why === 'loading') {
    return h(
      'div',
      { class: 'jp-Kai-Skeleton', role: 'status', 'aria-label': trans.__('Loading the reasons') },
      h('i'),
      h('i'),
      h('i')
    );
  }
  return reasons(why.items);
}

function timeLine(view: PodGroupView, trans: ITrans): HTMLElement | null {
  if (view.timeline.length === 0) {
    return null;
  }
  return h(
    'details',
    { class: 'jp-Kai-Disclosure', open: true },
    h('summary', {}, icon('right'), ` ${trans.__('Time line')}`),
    h(
      'dl',
      { class: 'jp-Kai-Log-times' },
      view.timeline.map(entry => [h('dt', {}, moment(entry.at)), h('dd', {}, unbroken(entry.text))])
    )
  );
}

/** One primary button a view, none on a waiting card. */
function actions(view: PodGroupView, stage: CardStage): HTMLElement | null {
  const { trans } = stage;
  const waiting = view.state === 'Waiting';
  const offers = new Set(offersOf(view).map(({ index }) => index));
  const buttons = view.actions
    .map((action, index) => ({ action, index }))
    .filter(
      ({ action, index }) => !offers.has(index) && !['why', 'logs', 'result'].includes(action.id)
    )
    .map(({ action, index }) => actionButton(view, action, index));
  const cancels = buttons.filter(item => item.dataset.do === 'cancel' && waiting);
  const others = buttons.filter(item => !cancels.includes(item));
  const mayWhy = view.actions.some(action => action.id === 'why');
  const shown: Child[] = [
    others,
    waiting && stage.mayNotify && stage.why === null
      ? button('notify', trans.__('Notify me'), { icon: 'bell' })
      : null,
    mayWhy ? whyButton(stage, trans) : null,
    stage.why !== null
      ? button('copy-support', trans.__('Copy for support'), { 'data-kind': 'plain', icon: 'copy' })
      : null,
    codeHint(view, trans),
    cancels
  ];
  return others.length + cancels.length > 0 || mayWhy
    ? h('div', { class: 'jp-Kai-Actions' }, shown)
    : null;
}

function whyButton(stage: CardStage, trans: ITrans): HTMLElement {
  const open = stage.why !== null;
  return button('why', trans.__('Why'), {
    'data-kind': 'plain',
    icon: 'right',
    'aria-expanded': String(open)
  });
}

function actionButton(view: PodGroupView, action: ActionView, index: number): HTMLElement {
  const primary =
    (view.tone === 'stop' && action.id === 'ask_again') ||
    (view.icon === 'moon' && action.id === 'release');
  const push = view.state === 'Waiting' && action.id === 'cancel';
  return button(action.id, action.label, {
    'data-index': index,
    'data-kind': primary || action.id === 'restart_kernel' ? 'main' : null,
    when: action.eta_text,
    push
  });
}

function codeHint(view: PodGroupView, trans: ITrans): Child {
  const code =
    view.tone === 'ok'
      ? view.actions.find(({ id, code }) => id === 'extend' && code !== null)?.code
      : null;
  return code
    ? [
        h('code', { class: 'jp-Kai-Mono jp-Kai-Soft jp-Kai-Push' }, code),
        button('copy', trans.__('Copy as code'), {
          'data-kind': 'icon',
          icon: 'copy',
          'data-text': code
        })
      ]
    : null;
}
