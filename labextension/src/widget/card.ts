/**
 * The card under a cell, as an anywidget: the same drawings as the page, alive while the kernel is busy.
 *
 * Rule: words come in the `view` trait or by the page's news, the newer wins. What the server can do goes over HTTP;
 * what only the kernel can do (a new handle in the notebook) goes to it as a message.
 */

import { isA } from '../api/guard';
import type { ActionView, ExplainView, PodGroupView, Submit } from '../api/schema';
import { askCard, type AskPick } from '../draw/ask';
import { earlierSession, releasedHead, supportText } from '../draw/brief';
import { card, type CardStage, isLive } from '../draw/card';
import { h, render as renderInto } from '../draw/element';
import { LogView } from '../draw/logs';
import { renamed } from '../draw/regions';
import { plainWords } from '../draw/words';
import { secondsOf } from '../model/actions';
import { followLogs } from '../model/logs';
import { type Asked, askedOf, submitOf } from './asked';
import { CardNumber } from './number';
import { askPage, keyOf, listen, type News, Page, pathOf, wholePage } from './page';
import { LateRelease } from './release';

/** The part of anywidget's model that is used. */
export interface IWidgetModel {
  get(name: string): unknown;
  on(event: string, then: (message?: unknown) => void): void;
  off(event: string, then: (message?: unknown) => void): void;
  send(message: unknown): void;
}

const TRAITS = ['view', 'group', 'ask', 'logs', 'note', 'offline', 'text'];
const OFFERS = new Set(['ask_again', 'smaller', 'switch_queue']);
const PAGE_COMMANDS: Readonly<Record<string, string>> = {
  logs: 'kai:open-gang',
  notify: 'kai:notify-me',
  'open-panel': 'kai:open-panel',
  'open-tab': 'kai:open-gang',
  retry: 'kai:retry'
};

class CardWidget {
  private readonly _page = Page.of(document);
  private readonly _number = new CardNumber();
  private readonly _stopListening: () => void;
  private readonly _following = new AbortController();
  private _news: News | null = null;
  private _newsAt = 0;
  private _why: ExplainView | 'loading' | null = null;
  private _pick: AskPick = { gpu: null, queue: null, duration: '' };
  /** The group that took the place of the kernel's, after an offer was taken here. */
  private _successor = '';
  private _logs: LogView | null = null;
  private _leaving: LateRelease | null = null;
  private _trouble = '';
  private _scheduled = false;

  constructor(
    private readonly _model: IWidgetModel,
    private readonly _host: HTMLElement
  ) {
    _host.addEventListener('click', this._clicked);
    _host.addEventListener('change', this._changed);
    for (const name of TRAITS) {
      _model.on(`change:${name}`, this._redraw);
    }
    _model.on('change:explain', this._explained);
    _model.on('msg:custom', this._told);
    this._explained();
    this._stopListening = listen(news => {
      this._news = news;
      this._newsAt = Date.now();
      this._redraw();
    });
    this._draw();
  }

  /** Let go of everything the card listens to. */
  dispose(): void {
    this._leaving?.flush(true);
    this._host.removeEventListener('click', this._clicked);
    this._host.removeEventListener('change', this._changed);
    for (const name of TRAITS) {
      this._model.off(`change:${name}`, this._redraw);
    }
    this._model.off('change:explain', this._explained);
    this._model.off('msg:custom', this._told);
    this._stopListening();
    this._following.abort();
    this._number.release();
  }

  private readonly _redraw = (): void => {
    if (!this._scheduled) {
      this._scheduled = true;
      requestAnimationFrame(() => {
        this._scheduled = false;
        if (!this._following.signal.aborted) {
          this._draw();
        }
      });
    }
  };

  /** The newest view of the group: the kernel's or the page's. */
  private _view(): PodGroupView | null {
    const own = this._model.get('view');
    const given = isA('PodGroupView', own) ? own : null;
    const ours = this._successor === '' ? given : null;
    const key =
      this._successor || (ours === null ? String(this._model.get('group') ?? '') : keyOf(ours));
    const live = this._news?.groups.find(group => keyOf(group) === key) ?? null;
    return live !== null && (ours === null || live.rev >= ours.rev) ? live : ours;
  }

  private _draw(): void {
    const view = this._view();
    if (view !== null) {
      const shown = this._isForgotten(view)
        ? this._numbered('earlier', () =>
            earlierSession(view.headline, view.actions[0]?.code ?? null, plainWords)
          )
        : this._numbered(keyOf(view), () => this._card(view));
      renderInto(this._host, shown, this._note());
      return;
    }
    const asked = this._asked();
    const shown =
      asked.choices.length > 0
        ? this._numbered('ask', number =>
            askCard(asked.choices, this._pick, `kai-ask-${number}`, plainWords, asked)
          )
        : String(this._model.get('text') ?? '');
    renderInto(this._host, shown, this._note());
  }

  /** The first card of a thing has the plain name, the others say which they are. */
  private _numbered(thing: string, draw: (number: number) => HTMLElement): HTMLElement {
    const number = this._number.of(thing);
    const drawn = draw(number);
    return number === 1
      ? drawn
      : renamed(drawn, name => plainWords.__('%1, card %2', name, number));
  }

  private _asked(): Asked {
    return askedOf(this._model.get('ask'));
  }

  private _note(): HTMLElement | null {
    const said = this._trouble || String(this._model.get('note') ?? '');
    return said === ''
      ? null
      : h(
          'p',
          {
            class: 'jp-Kai jp-Kai-Said',
            role: 'status',
            'data-state': this._trouble ? 'stop' : 'mute'
          },
          said
        );
  }

  private _now(): number {
    return this._news === null ? Date.now() : this._news.now + Date.now() - this._newsAt;
  }

  private _offline(): CardStage['offline'] {
    const news = this._news;
    const away = news === null ? String(this._model.get('offline') ?? '') !== '' : !news.connected;
    return away ? { age_s: news?.age_s ?? 0, retry_s: news?.retry_s ?? null } : null;
  }

  private _card(view: PodGroupView): HTMLElement {
    if (this._leaving?.isPending && isLive(view)) {
      return releasedHead(view, this._now(), this._leaving.left_s, plainWords);
    }
    const stage: CardStage = {
      trans: plainWords,
      now: this._now(),
      offline: isLive(view) ? this._offline() : null,
      why: this._why,
      nodes: this._news?.nodes ?? [],
      logs: this._logsOf(view),
      place: 'cell',
      mayNotify: this._news !== null
    };
    return card(view, stage);
  }

  /** The service no longer knows a request that the saved notebook still shows as live. */
  private _isForgotten(view: PodGroupView): boolean {
    const news = this._news;
    return (
      news !== null &&
      news.connected &&
      isLive(view) &&
      !news.groups.some(group => keyOf(group) === keyOf(view))
    );
  }

  private _logsOf(view: PodGroupView): HTMLElement | null {
    if (view.kind !== 'gang' || view.granted_at === null) {
      return null;
    }
    if (this._logs === null) {
      const logs = new LogView(view.name, plainWords);
      this._logs = logs;
      const page = this._page;
      if (page === null) {
        this._pushKernelLines();
      } else {
        void followLogs(
          (after, wait_s, signal) => page.logs(pathOf(view), after, wait_s, signal),
          lines => logs.push(lines),
          this._following.signal
        );
      }
    }
    return this._logs.node;
  }

  /** The last lines as the kernel gave them, where no server of the page can be asked. */
  private _pushKernelLines(): void {
    const page = wholePage(this._model.get('logs'));
    if (isA('LogPage', page)) {
      this._logs?.push(page);
    }
    this._model.send({ kind: 'action', id: 'logs' });
  }

  private readonly _explained = (): void => {
    const explain = this._model.get('explain');
    if (isA('ExplainView', explain)) {
      this._why = explain;
      this._redraw();
    }
  };

  private readonly _told = (message: unknown): void => {
    const { kind, page } = message as { kind?: string; page?: unknown };
    if (kind === 'logs' && isA('LogPage', page)) {
      this._logs?.push(page);
    }
  };

  private readonly _changed = (event: Event): void => {
    const chosen = event.target;
    if (chosen instanceof HTMLInputElement && chosen.type === 'radio') {
      this._pick = { ...this._pick, gpu: chosen.value };
    } else if (chosen instanceof HTMLSelectElement && chosen.dataset.pick === 'queue') {
      this._pick = { ...this._pick, queue: chosen.value };
    } else if (chosen instanceof HTMLSelectElement) {
      this._pick = { ...this._pick, duration: chosen.value };
    } else {
      return;
    }
    this._redraw();
  };

  private readonly _clicked = (event: Event): void => {
    const clicked =
      event.target instanceof Element ? event.target.closest<HTMLElement>('[data-do]') : null;
    if (clicked === null) {
      return;
    }
    clicked.closest('details.jp-Kai-Menu')?.removeAttribute('open');
    this._trouble = '';
    void this._act(clicked).catch(this._failed);
  };

  private readonly _failed = (error: unknown): void => {
    this._trouble = error instanceof Error ? error.message : String(error);
    this._redraw();
  };

  private async _act(clicked: HTMLElement): Promise<void> {
    const { do: what = '', text, gpu } = clicked.dataset;
    const view = this._view();
    if (what === 'copy') {
      await navigator.clipboard?.writeText(text ?? '');
    } else if (view !== null) {
      await this._actOn(view, what, clicked);
    } else if (what === 'ask') {
      this._model.send({
        kind: 'ask',
        id: 'ask',
        submit: submitOf(this._asked(), gpu ?? '', this._pick)
      });
    }
    this._redraw();
  }

  private async _actOn(view: PodGroupView, what: string, clicked: HTMLElement): Promise<void> {
    const { text, index, line } = clicked.dataset;
    const action = index === undefined ? null : (view.actions[Number(index)] ?? null);
    const own: Readonly<Record<string, () => Promise<void> | void>> = {
      'copy-support': () => navigator.clipboard?.writeText(supportText(view)),
      'go-to-line': () => askPage('kai:go-to-line', { group: keyOf(view), line: Number(line) }),
      'insert-cell': () => askPage('kai:insert-code', { code: text ?? '' }),
      reason: () => this._takeReason(view, Number(index)),
      release: () => this._release(view),
      result: () => askPage('kai:insert-code', { code: action?.code ?? '' }),
      undo: () => this._leaving?.undo(),
      why: () => this._explain(view)
    };
    const command = PAGE_COMMANDS[what];
    if (command !== undefined) {
      askPage(command, { group: keyOf(view) });
    } else {
      await (own[what] ?? (() => this._do(what, view, action)))();
    }
  }

  /** What the page's server can do works while the kernel is busy; the kernel is asked only where there is no server. */
  private async _do(what: string, view: PodGroupView, action: ActionView | null): Promise<void> {
    const by_s = what === 'extend' ? secondsOf(action?.code ?? null) : null;
    if (this._page === null) {
      this._model.send({ kind: 'action', id: what, submit: action?.submit ?? null, by_s });
    } else if (OFFERS.has(what)) {
      await this._takeOffer(this._page, view, action);
    } else if (by_s !== null) {
      await this._page.extend(pathOf(view), by_s);
    } else if (what === 'restart_kernel') {
      askPage('kai:restart-kernel', { group: keyOf(view) });
    } else {
      await this._page.cancel(pathOf(view));
    }
  }

  /** With a server behind the page a release waits some seconds for "Undo"; the kernel releases at once. */
  private _release(view: PodGroupView): Promise<void> | void {
    const page = this._page;
    if (page === null || view.state !== 'Running') {
      return this._do('release', view, null);
    }
    const send = (keepalive: boolean): void => {
      void page.cancel(pathOf(view), keepalive).catch(this._failed);
    };
    this._leaving?.flush();
    this._leaving = new LateRelease(send, this._redraw);
  }

  /** The offered request is made first; only then is the waiting one withdrawn. The card goes on with the new one. */
  private async _takeOffer(
    page: Page,
    view: PodGroupView,
    action: ActionView | null
  ): Promise<void> {
    const wanted: Submit | null = action?.submit ?? null;
    if (wanted === null) {
      askPage('kai:insert-code', { code: action?.code ?? '%gpu' });
      return;
    }
    const taken = await page.submit(wanted);
    if (view.state === 'Waiting') {
      await page.cancel(pathOf(view));
    }
    this._successor = keyOf(taken);
  }

  private async _explain(view: PodGroupView): Promise<void> {
    if (this._why !== null) {
      this._why = null;
      return;
    }
    this._why = 'loading';
    this._redraw();
    if (this._page === null) {
      this._model.send({ kind: 'action', id: 'why' });
      return;
    }
    try {
      this._why = await this._page.explain(pathOf(view));
    } catch (error) {
      this._why = null;
      throw error;
    }
  }

  private async _takeReason(view: PodGroupView, index: number): Promise<void> {
    const why = this._why;
    const action = why === null || why === 'loading' ? null : (why.items[index]?.action ?? null);
    if (action?.submit) {
      await this._do(action.id, view, action);
    } else if (action?.code) {
      askPage('kai:insert-code', { code: action.code, run: true });
    }
  }
}

/** Draw the card into `el`; what it returns lets go of everything again. */
function render({ model, el }: { model: IWidgetModel; el: HTMLElement }): () => void {
  const widget = new CardWidget(model, el);
  return () => widget.dispose();
}

export default { render };
