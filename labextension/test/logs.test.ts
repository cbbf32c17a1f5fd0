// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';
import type { LogPage } from '../src/api/schema';
import { LogView } from '../src/draw/logs';
import { plainWords } from '../src/draw/words';
import { followLogs } from '../src/model/logs';
import { logLine } from './fixtures';

function page(lines: LogPage['lines'], more: Partial<LogPage> = {}): LogPage {
  return { lines, next: lines.length, dropped: 0, ended: false, facts: {}, ...more };
}

async function painted(): Promise<void> {
  await new Promise(resolve => requestAnimationFrame(resolve));
}

describe('the log', () => {
  let view: LogView;

  beforeEach(() => {
    view = new LogView('sweep', plainWords);
    document.body.replaceChildren(view.node);
  });

  it('draws lines as text, without terminal codes', async () => {
    view.push(page([logLine(0, 0, '\u001b[31m<b>red</b>\u001b[0m')]));
    await painted();
    const line = view.node.querySelector('.lines p span');
    expect(line?.textContent).toBe('<b>red</b>');
    expect(line?.querySelector('b')).toBeNull();
  });

  it('keeps only the window in the page, and the newest lines of all', async () => {
    view.push(
      page(Array.from({ length: 25_000 }, (_, seq) => logLine(seq, seq % 2, `line ${seq}`)))
    );
    await painted();
    expect(view.node.querySelectorAll('.lines p').length).toBeLessThan(60);
    expect(view.node.querySelector('.foot')?.textContent).toContain(
      '5,000 earlier lines are not shown'
    );
    expect(view.text().split('\n')).toHaveLength(20_000);
  });

  it('filters by rank and by search', async () => {
    view.push(page([logLine(0, 0, 'loss 1'), logLine(1, 3, 'loss 2'), logLine(2, 3, 'saved')]));
    view.node.querySelector<HTMLElement>('[data-rank="3"]')?.click();
    expect(view.text().split('\n')).toHaveLength(2);
    const search = view.node.querySelector('input') as HTMLInputElement;
    search.value = 'SAVED';
    search.dispatchEvent(new Event('input', { bubbles: true }));
    expect(view.text()).toMatch(/3 saved$/);
    await painted();
    expect(view.node.querySelector('[data-rank="3"]')?.getAttribute('aria-pressed')).toBe('true');
  });

  it('is followed page by page until it ends, each from where the last ended', async () => {
    const asked: number[] = [];
    const pages = [
      page([logLine(0, 0, 'a')], { next: 1 }),
      page([logLine(1, 0, 'b')], { next: 2, ended: true })
    ];
    const got: string[] = [];
    await followLogs(
      async after => {
        asked.push(after);
        return pages[asked.length - 1] as LogPage;
      },
      ({ lines }) => got.push(...lines.map(line => line.text)),
      new AbortController().signal
    );
    expect(asked).toEqual([0, 1]);
    expect(got).toEqual(['a', 'b']);
  });

  it('tries again after a failure, and stops when nobody looks any more', async () => {
    const stop = new AbortController();
    let pauses = 0;
    await followLogs(
      () => Promise.reject(new Error('away')),
      () => undefined,
      stop.signal,
      async () => {
        pauses += 1;
        if (pauses === 3) {
          stop.abort();
        }
      }
    );
    expect(pauses).toBe(3);
  });
});
