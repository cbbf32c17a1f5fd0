/**
 * The merged log of a gang: a ring of lines of which only the visible window is in the page.
 *
 * Rule: one paint per animation frame whatever arrives; a line is text, never markup; the end is followed only while the
 * reader is at the end.
 */

import type { LogLine, LogPage } from '../api/schema';
import { h, render } from './element';
import { button } from './parts';
import { icon } from './icons';
import { count, type ITrans, preciseClock } from './words';

const ROW_PX = 18;
const RING = 20_000;
const SPARE_ROWS = 6;
const MAX_RANK_BUTTONS = 16;
// eslint-disable-next-line no-control-regex -- the escape character opens every terminal colour code
const TERMINAL_CODES = /\u001b\[[0-9;?]*[A-Za-z]/g;
const WARNING = /\bwarn(ing)?\b/i;
const ERROR = /\b(error|exception|traceback)\b/i;

/** A log that draws itself into `node`. Feed it with `push`; it asks for nothing. */
export class LogView {
  readonly node: HTMLElement;
  private readonly _trans: ITrans;
  private readonly _name: string;
  private _ranks: ReadonlyArray<number> = [];
  private _lines: LogLine[] = [];
  private _shown: LogLine[] = [];
  private _dropped = 0;
  private _rank: number | null = null;
  private _search = '';
  private _follow = true;
  /** A person moved in the log; a scroll that follows is theirs, not the layout's. */
  private _isReading = false;
  private _scheduled = false;
  private readonly _scroller: HTMLElement;
  private readonly _window = h('div', { class: 'window' });
  private readonly _sizer = h('div', { class: 'sizer' }, this._window);
  private readonly _bar = h('div', { class: 'bar' });
  private readonly _foot = h('p', { class: 'foot' });

  constructor(name: string, trans: ITrans) {
    this._name = name;
    this._trans = trans;
    this._scroller = h(
      'div',
      {
        class: 'lines',
        tabindex: 0,
        role: 'log',
        'aria-label': trans.__('Log of %1', name),
        'aria-live': 'off'
      },
      this._sizer
    );
    this.node = h(
      'div',
      { class: 'jp-Kai-Logs', 'data-own': true, 'data-key': 'logs' },
      this._bar,
      this._scroller,
      this._foot
    );
    this._scroller.addEventListener('scroll', () => this._scrolled());
    for (const moved of ['wheel', 'pointerdown', 'touchmove', 'keydown']) {
      this._scroller.addEventListener(moved, () => (this._isReading = true), { passive: true });
    }
    this._bar.addEventListener('click', event => this._clicked(event));
    this._bar.addEventListener('input', event => this._typed(event));
    this._drawBar();
    this._schedule();
  }

  /** Add a page of lines, as the service sent it. */
  push(page: LogPage): void {
    const known = new Set(this._ranks);
    for (const line of page.lines) {
      known.add(line.rank);
      this._lines.push(line);
    }
    this._dropped += page.dropped + Math.max(0, this._lines.length - RING);
    this._lines = this._lines.slice(-RING);
    if (known.size !== this._ranks.length) {
      this._ranks = [...known].sort((a, b) => a - b);
      this._drawBar();
    }
    this._filter();
  }

  /** All lines that the filter lets through, as text. */
  text(): string {
    return this._shown
      .map(line => `${preciseClock(line.at)} ${line.rank} ${plain(line.text)}`)
      .join('\n');
  }

  private _filter(): void {
    const wanted = this._search.toLowerCase();
    this._shown = this._lines.filter(
      line =>
        (this._rank === null || line.rank === this._rank) &&
        (wanted === '' || line.text.toLowerCase().includes(wanted))
    );
    this._schedule();
  }

  private _schedule(): void {
    if (!this._scheduled) {
      this._scheduled = true;
      requestAnimationFrame(() => {
        this._scheduled = false;
        this._paint();
      });
    }
  }

  private _paint(): void {
    const rows = this._shown.length;
    this._sizer.style.blockSize = `${Math.max(1, rows) * ROW_PX}px`;
    if (this._follow) {
      this._scroller.scrollTop = rows * ROW_PX;
    }
    const height = this._scroller.clientHeight || 160;
    const first = Math.max(0, Math.floor(this._scroller.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(rows, first + Math.ceil(height / ROW_PX) + 2 * SPARE_ROWS);
    this._window.style.transform = `translateY(${first * ROW_PX}px)`;
    render(
      this._window,
      this._shown.slice(first, last).map(drawLine),
      rows === 0 ? h('p', { class: 'none' }, this._emptyText()) : null
    );
    this._drawFoot();
  }

  private _emptyText(): string {
    return this._lines.length > 0
      ? this._trans.__('No line matches.')
      : this._trans.__('No output yet.');
  }

  private _drawFoot(): void {
    const trans = this._trans;
    const total = count(this._lines.length);
    const lines = trans._n('%2 line', '%2 lines', this._lines.length, total);
    const ranks = trans._n('%1 rank', '%1 ranks', this._ranks.length, this._ranks.length);
    const dropped =
      this._dropped > 0 ? trans.__('%1 earlier lines are not shown', count(this._dropped)) : '';
    render(
      this._foot,
      h('span', {}, `${lines}, ${ranks}`),
      dropped ? h('span', {}, dropped) : null
    );
  }

  private _drawBar(): void {
    const trans = this._trans;
    const pressed = (on: boolean): string => String(on);
    const ranks = this._ranks.slice(0, MAX_RANK_BUTTONS);
    render(
      this._bar,
      h(
        'div',
        { class: 'ranks', role: 'group', 'aria-label': trans.__('Ranks in the log') },
        h(
          'button',
          { type: 'button', 'data-rank': '', 'aria-pressed': pressed(this._rank === null) },
          trans.__('All')
        ),
        ranks.map(rank =>
          h(
            'button',
            {
              type: 'button',
              'data-rank': rank,
              'aria-pressed': pressed(this._rank === rank),
              'aria-label': trans.__('Rank %1', rank)
            },
            rank
          )
        )
      ),
      h(
        'label',
        { class: 'find' },
        icon('search'),
        h('span', { class: 'jp-Kai-Sr' }, trans.__('Search the log')),
        h('input', { type: 'search', placeholder: trans.__('Search') })
      ),
      button('follow', trans.__('Follow'), {
        'data-size': 's',
        icon: 'follow',
        'aria-pressed': pressed(this._follow)
      }),
      button('copy-log', trans.__('Copy the log of %1', this._name), {
        'data-size': 's',
        'data-kind': 'icon',
        icon: 'copy'
      }),
      button('download-log', trans.__('Download the log of %1', this._name), {
        'data-size': 's',
        'data-kind': 'icon',
        icon: 'arrow'
      })
    );
  }

  private _clicked(event: Event): void {
    const target = (event.target as Element).closest('button');
    if (target === null) {
      return;
    }
    event.stopPropagation();
    const rank = target.dataset.rank;
    if (rank !== undefined) {
      this._rank = rank === '' ? null : Number(rank);
      this._filter();
    } else if (target.dataset.do === 'follow') {
      this._follow = !this._follow;
      this._isReading = !this._follow;
      this._schedule();
    } else if (target.dataset.do === 'copy-log') {
      void navigator.clipboard?.writeText(this.text());
    } else {
      this._download();
    }
    this._drawBar();
  }

  private _typed(event: Event): void {
    this._search = (event.target as HTMLInputElement).value;
    this._filter();
  }

  private _scrolled(): void {
    const { scrollTop, clientHeight, scrollHeight } = this._scroller;
    const atEnd = scrollTop + clientHeight >= scrollHeight - 2 * ROW_PX;
    if (this._isReading && atEnd !== this._follow) {
      this._follow = atEnd;
      this._drawBar();
    }
    this._isReading = this._isReading && !atEnd;
    this._schedule();
  }

  private _download(): void {
    const url = URL.createObjectURL(new Blob([this.text()], { type: 'text/plain' }));
    const link = h('a', { href: url, download: `${this._name}.log` });
    link.click();
    URL.revokeObjectURL(url);
  }
}

function plain(text: string): string {
  return text.replace(TERMINAL_CODES, '');
}

function drawLine(line: LogLine): HTMLElement {
  const text = plain(line.text);
  const tone = ERROR.test(text) ? 'error' : WARNING.test(text) ? 'warn' : null;
  return h(
    'p',
    { class: tone, 'data-stream': line.stream },
    h('time', {}, preciseClock(line.at)),
    h('b', {}, line.rank),
    h('span', {}, text)
  );
}
