/**
 * The page of a lead, as an anywidget: Voila shows it alone, a notebook below its cell.
 *
 * Rule: words and rights are the service's; they come in the `view` trait. What a person wants goes to the kernel as a
 * message, the only thing a page of Voila may send; the kernel asks the service and answers. The kernel is told each few
 * seconds that somebody looks, and stops listening when nobody does.
 */

import { guarded, isA } from '../api/guard';
import type { TeamView, WhatIfView } from '../api/schema';
import { board, type BoardStage } from '../draw/board';
import { render as renderInto } from '../draw/element';
import { plainWords } from '../draw/words';
import { LeadDialog, whatOf } from './leadDialog';
import { dayTime, type LeadWish } from './leadWish';
import { Questions, type Sender } from './questions';

/** The part of anywidget's model that is used. */
export interface IBoardModel extends Sender {
  get(name: string): unknown;
  on(event: string, then: (message?: unknown) => void): void;
  off(event: string, then: (message?: unknown) => void): void;
}

const LOOK_MS = 5000;
const ASK_MS = 400;
const SAID_MS = 12_000;
const TRAITS = ['view', 'offline'];
const PARAMETER = 'who';

class BoardWidget {
  private readonly _questions: Questions;
  private readonly _beat: ReturnType<typeof setInterval>;
  private readonly _dialog: LeadDialog;
  private _viewAt = Date.now();
  private _filter = filterOfPage();
  private readonly _open = new Set<string>();
  private _whatIf: WhatIfView | null = null;
  private _whatIfTrouble = '';
  private _isAsking = false;
  private _asking: ReturnType<typeof setTimeout> | undefined;
  private _said = '';
  private _isTrouble = false;
  private _saying: ReturnType<typeof setTimeout> | undefined;
  private _scheduled = false;
  private _isGone = false;

  constructor(
    private readonly _model: IBoardModel,
    private readonly _host: HTMLElement
  ) {
    this._questions = new Questions(_model);
    this._dialog = new LeadDialog(this._questions);
    _host.addEventListener('click', this._clicked);
    _host.addEventListener('input', this._typed);
    _host.addEventListener('submit', this._submitted);
    for (const name of TRAITS) {
      _model.on(`change:${name}`, this._changed);
    }
    _model.on('msg:custom', this._questions.answered);
    document.addEventListener('visibilitychange', this._look);
    this._beat = setInterval(this._look, LOOK_MS);
    this._look();
    this._draw();
  }

  /** Let go of everything the page listens to. */
  dispose(): void {
    this._isGone = true;
    clearInterval(this._beat);
    clearTimeout(this._asking);
    clearTimeout(this._saying);
    this._host.removeEventListener('click', this._clicked);
    this._host.removeEventListener('input', this._typed);
    this._host.removeEventListener('submit', this._submitted);
    for (const name of TRAITS) {
      this._model.off(`change:${name}`, this._changed);
    }
    this._model.off('msg:custom', this._questions.answered);
    document.removeEventListener('visibilitychange', this._look);
    this._dialog.close();
  }

  private readonly _changed = (): void => {
    this._viewAt = Date.now();
    this._redraw();
  };

  private readonly _redraw = (): void => {
    if (!this._scheduled) {
      this._scheduled = true;
      requestAnimationFrame(() => {
        this._scheduled = false;
        if (!this._isGone) {
          this._draw();
        }
      });
    }
  };

  private readonly _look = (): void => {
    if (document.visibilityState === 'visible') {
      this._model.send({ kind: 'look' });
      this._redraw();
    }
  };

  private _view(): TeamView | null {
    const view = this._model.get('view');
    return isA('TeamView', view) ? view : null;
  }

  private _draw(): void {
    const view = this._view();
    if (view === null) {
      renderInto(this._host, String(this._model.get('offline') || 'Looking for the queue.'));
      return;
    }
    renderInto(this._host, board(view, this._stage(view)));
    if (this._whatIf === null && this._whatIfTrouble === '' && !this._isAsking) {
      this._askWhatIf();
    }
  }

  private _stage(view: TeamView): BoardStage {
    return {
      trans: plainWords,
      now: view.now + Date.now() - this._viewAt,
      filter: this._filter,
      open: this._open,
      whatIf: this._whatIf,
      whatIfTrouble: this._whatIfTrouble,
      isAsking: this._isAsking,
      offline: String(this._model.get('offline') ?? ''),
      said: this._said,
      isTrouble: this._isTrouble
    };
  }

  // -- lending -----------------------------------------------------------------------------------
  private _loan(): LeadWish | null {
    const form = this._host.querySelector<HTMLFormElement>('form[data-do="lend"]');
    if (form === null) {
      return null;
    }
    const data = new FormData(form);
    const text = (name: string): string => String(data.get(name) ?? '').trim();
    const until = dayTime(text('until'), this._now());
    return {
      kind: 'lend',
      queue: text('from'),
      to: text('to'),
      gpu: text('gpu'),
      until,
      reason: text('reason')
    };
  }

  private _now(): number {
    return (this._view()?.now ?? Date.now()) + Date.now() - this._viewAt;
  }

  private _askWhatIf(): void {
    clearTimeout(this._asking);
    this._isAsking = true;
    this._asking = setTimeout(() => void this._tryLoan(), ASK_MS);
  }

  private async _tryLoan(): Promise<void> {
    const wish = this._loan();
    if (wish === null || wish.gpu === '') {
      this._isAsking = false;
      return;
    }
    try {
      const answer = await this._questions.ask('what_if', {
        ...wish,
        reason: wish.reason || 'what if'
      });
      this._whatIf = guarded('WhatIfView', answer);
      this._whatIfTrouble = '';
    } catch (error) {
      this._whatIf = null;
      this._whatIfTrouble = wordsOf(error);
    }
    this._isAsking = false;
    this._redraw();
  }

  private readonly _submitted = (event: Event): void => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const wish = form.dataset.do === 'lend' ? this._loan() : null;
    if (wish !== null) {
      void this._make(wish).then(isMade => {
        if (isMade) {
          form.reset();
          this._whatIf = null;
        }
      });
    }
  };

  private async _make(wish: LeadWish): Promise<boolean> {
    try {
      const made = guarded('ChangeView', await this._questions.ask('change', wish));
      this._say(made.text, false);
      return true;
    } catch (error) {
      this._say(wordsOf(error), true);
      return false;
    }
  }

  // -- everything else ---------------------------------------------------------------------------
  private readonly _typed = (event: Event): void => {
    const field = event.target;
    if (field instanceof HTMLInputElement && field.dataset.pick === 'filter') {
      this._filter = field.value;
      filterToPage(field.value);
      this._redraw();
    } else if (field instanceof Element && field.closest('form[data-do="lend"]') !== null) {
      if ((field as HTMLInputElement).name !== 'reason') {
        this._askWhatIf();
        this._redraw();
      }
    }
  };

  private readonly _clicked = (event: Event): void => {
    const clicked =
      event.target instanceof Element ? event.target.closest<HTMLElement>('button[data-do]') : null;
    if (clicked === null) {
      return;
    }
    clicked.closest('details.jp-Kai-Menu')?.removeAttribute('open');
    void this._act(clicked).catch((error: unknown) => this._say(wordsOf(error), true));
  };

  private async _act(clicked: HTMLElement): Promise<void> {
    const { do: what = '', list = '', table = '' } = clicked.dataset;
    const own: Readonly<Record<string, () => Promise<void> | void>> = {
      csv: () => this._download(table),
      more: () => this._fold(list),
      print: () => window.print(),
      undo: () => this._takeBack(clicked)
    };
    const view = this._view();
    if (own[what] !== undefined) {
      await own[what]();
    } else if (view !== null) {
      const done = await this._dialog.show(whatOf(what, clicked.dataset, view));
      if (done !== '') {
        this._say(done, false);
      }
    }
    this._redraw();
  }

  private _fold(list: string): void {
    if (!this._open.delete(list)) {
      this._open.add(list);
    }
  }

  private async _takeBack(clicked: HTMLElement): Promise<void> {
    const { number = '', text = '' } = clicked.dataset;
    const done = await this._dialog.showUndo(Number(number), text);
    if (done !== '') {
      this._say(done, false);
    }
  }

  private async _download(table: string): Promise<void> {
    const { name, text } = (await this._questions.ask('csv', { table })) as {
      name: string;
      text: string;
    };
    const address = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
    const link = document.createElement('a');
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  private _say(text: string, isTrouble: boolean): void {
    this._said = text;
    this._isTrouble = isTrouble;
    clearTimeout(this._saying);
    if (!isTrouble) {
      this._saying = setTimeout(() => this._say('', false), SAID_MS);
    }
    this._redraw();
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The filter is kept in the address of a page that is ours alone; a notebook's address belongs to Lab. */
function isOwnPage(): boolean {
  return document.body.dataset.voila !== undefined;
}

function filterOfPage(): string {
  return isOwnPage() ? (new URLSearchParams(location.search).get(PARAMETER) ?? '') : '';
}

function filterToPage(filter: string): void {
  if (isOwnPage()) {
    const address = new URL(location.href);
    if (filter.trim() === '') {
      address.searchParams.delete(PARAMETER);
    } else {
      address.searchParams.set(PARAMETER, filter.trim());
    }
    history.replaceState(null, '', address);
  }
}

export default {
  render({ model, el }: { model: IBoardModel; el: HTMLElement }): () => void {
    const widget = new BoardWidget(model, el);
    return () => widget.dispose();
  }
};
