// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import type { PodGroupView } from '../src/api/schema';
import { earlierSession, supportText } from '../src/draw/brief';
import { card, type CardStage } from '../src/draw/card';
import { plainWords } from '../src/draw/words';
import { action, gang, granted, group, node, NOW, pod } from './fixtures';

const STAGE: CardStage = {
  trans: plainWords,
  now: NOW,
  offline: null,
  why: null,
  nodes: [],
  logs: null,
  place: 'cell',
  mayNotify: true
};

function failedGang(): PodGroupView {
  const pods = [0, 1, 2].map(rank =>
    pod(rank, { state: 'Failed', signal: rank === 1 ? null : 'SIGTERM', exit_code: 1 })
  );
  const failure = {
    rank: 1,
    at: NOW,
    message: 'ValueError: no',
    traceback: 'Traceback\n  File "a", line 1\n',
    cell_line: 2,
    source: 'a\nb = <c>\nd\n'
  };
  return gang(3, 0, {
    state: 'Failed',
    word: 'Failed',
    tone: 'stop',
    icon: 'cross',
    pods,
    failure,
    actions: []
  });
}

function text(element: Element | null): string {
  return (element?.textContent ?? '')
    .replace(/\u00a0/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

function labels(root: Element): string[] {
  return [...root.querySelectorAll('.jp-Kai-Actions button, .jp-Kai-Head-end > button')].map(
    button => text(button) || (button.getAttribute('aria-label') ?? '')
  );
}

describe('the card of a lease', () => {
  it('waiting: sentence, track, offers, then actions with Cancel last', () => {
    const drawn = card(group(), STAGE);
    expect(text(drawn.querySelector('.jp-Kai-Line'))).toBe(
      'Position 3 of 7. About 6 min (4 to 11). Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.'
    );
    expect(text(drawn.querySelector('.jp-Kai-Head-what'))).toBe(
      '0.5 GPU, 40 GiB memory share, queue team-a'
    );
    expect(drawn.querySelector('.jp-Kai-Eta')?.getAttribute('aria-label')).toMatch(
      /^Start likely at/
    );
    expect(text(drawn.querySelector('.jp-Kai-Row'))).toBe('0.25 GPU, 20 GiBnowSwitch');
    expect(labels(drawn)).toEqual(['Notify me', 'Why', 'Cancel']);
    expect(drawn.hasAttribute('data-attention')).toBe(false);
    expect(drawn.querySelector('[data-kind="main"]')).toBeNull();
  });

  it('draws no track where no time is known', () => {
    const eta = {
      earliest_at: null,
      likely_at: null,
      latest_at: null,
      basis: 'unknown' as const,
      text: 'no time known'
    };
    expect(card(group({ eta }), STAGE).querySelector('.jp-Kai-Eta')).toBeNull();
  });

  it('why opened: each reason with its one thing to do, and the time line', () => {
    const why = {
      namespace: 'ana',
      name: 'lease',
      headline: '',
      position: 3,
      waiting_in_queue: 7,
      overall: 9,
      eta: null,
      reasons: [],
      items: [
        { title: 'Quota', text: 'It must fit into 8.', action: action('smaller', 'Ask 0.25 now') }
      ],
      would_help: []
    };
    const drawn = card(group(), { ...STAGE, why });
    expect(text(drawn.querySelector('.jp-Kai-Reasons li'))).toBe(
      'Quota. It must fit into 8.Ask 0.25 now'
    );
    expect(text(drawn.querySelector('.jp-Kai-Log-times'))).toContain('Asked: position 5 of 8');
    expect(drawn.querySelector('[data-do="why"]')?.getAttribute('aria-expanded')).toBe('true');
    expect(drawn.querySelector('.jp-Kai-Rows')).toBeNull();
  });

  it('granted: device, memory, end, what is not enforced', () => {
    const drawn = card(granted({ notes: ['memory not enforced'] }), { ...STAGE, nodes: [node()] });
    const facts = text(drawn.querySelector('.jp-Kai-Facts'));
    expect(facts).toContain('GPU 2 on gpu-3, H100 80 GiB');
    expect(facts).toContain('in 3 h 30 min');
    expect(drawn.querySelector('.jp-Kai-Share')?.getAttribute('aria-label')).toBe(
      'GPU 2: 0.5 yours, 0.5 free'
    );
    expect(text(drawn.querySelector('.jp-Kai-Tag'))).toBe('memory not enforced');
    expect(text(drawn.querySelector('.jp-Kai-Head-what'))).toBe('queue team-a, waited 12 min');
    expect(labels(drawn)).toEqual(['Release', 'Extend 1 h', 'Copy as code']);
  });

  it('idle: the border asks for attention, and Release is the one primary button', () => {
    const idle = granted({ word: 'Idle 15 min', tone: 'wait', icon: 'moon' });
    const drawn = card(idle, STAGE);
    expect(drawn.hasAttribute('data-attention')).toBe(true);
    expect([...drawn.querySelectorAll('[data-kind="main"]')].map(text)).toEqual(['Release']);
  });

  it('lost: says so, and the way back carries its own waiting time', () => {
    const lost = group({
      state: 'Evicted',
      word: 'Lost',
      tone: 'stop',
      icon: 'cross',
      headline: 'Your GPU was taken back at 13:58. Variables are gone; files are safe.',
      detail: '',
      actions: [
        action('ask_again', 'Ask again', { eta_text: 'about 9 min' }),
        action('smaller', '0.25 GPU', { eta_text: 'now' })
      ]
    });
    const drawn = card(lost, STAGE);
    expect(labels(drawn)).toEqual(['Ask again (about 9 min)', '0.25 GPU (now)']);
    expect(drawn.getAttribute('data-state')).toBe('stop');
  });

  it('offline: never shows stale numbers as live', () => {
    const drawn = card(group(), { ...STAGE, offline: { age_s: 40, retry_s: 8 } });
    expect(text(drawn.querySelector('.jp-Kai-Line strong'))).toBe(
      'The queue does not answer. Last known 40 s ago: position 3'
    );
    expect(text(drawn)).toContain('Trying again in 8 s');
    expect(drawn.querySelector('.jp-Kai-Eta')).toBeNull();
  });

  it('released: one row', () => {
    const released = group({
      state: 'Succeeded',
      word: 'Released',
      tone: 'mute',
      icon: 'check',
      headline: 'Released. 2.4 GPU-hours used.',
      detail: '',
      actions: []
    });
    const drawn = card(released, STAGE);
    expect(drawn.querySelector('.jp-Kai-Body')).toBeNull();
    expect(text(drawn)).toBe('Released2.4 GPU-hours used.');
  });

  it('earlier session: the last words and no live button', () => {
    const drawn = earlierSession('0.5 GPU on gpu-3', '%gpu 0.5', plainWords);
    expect(text(drawn)).toBe('Earlier session0.5 GPU on gpu-3Copy as code');
  });

  it('every card is a named region', () => {
    for (const view of [group(), granted(), gang(4, 2)]) {
      const drawn = card(view, STAGE);
      expect(drawn.getAttribute('role')).toBe('region');
      expect(drawn.getAttribute('aria-label')).toContain(view.word);
    }
  });

  it('its regions have other names in a tab, beside the card in the notebook', () => {
    const view = failedGang();
    const names = (place: 'cell' | 'tab'): ReadonlyArray<string | null> => {
      const drawn = card(view, { ...STAGE, place });
      return [drawn, ...drawn.querySelectorAll('[role="region"]')].map(region =>
        region.getAttribute('aria-label')
      );
    };
    const all = [...names('cell'), ...names('tab')];
    expect(all.length).toBeGreaterThanOrEqual(6);
    expect(new Set(all).size).toBe(all.length);
  });

  it('the text for support holds state, reason and time line', () => {
    const reason = { code: 'over_quota', text: 'Over quota.', facts: {} };
    expect(supportText(group({ reason }))).toMatch(
      /ana\/lease[\s\S]*over_quota: Over quota\.[\s\S]*Asked: position 5 of 8/
    );
  });
});

describe('the card of a gang', () => {
  it('waiting: which workers fit, and that their places are not held', () => {
    const drawn = card(gang(8, 6), STAGE);
    const squares = [...drawn.querySelectorAll('.jp-Kai-Worker')];
    expect(squares.map(square => square.getAttribute('data-state'))).toEqual([
      ...Array<string>(6).fill('ok'),
      'wait',
      'wait'
    ]);
    expect(text(drawn)).toContain(
      'The 6 places are not held: others may use them until all 8 fit.'
    );
  });

  it('64 workers: icons with a name each', () => {
    const drawn = card(gang(64, 51), STAGE);
    expect(drawn.querySelector('.jp-Kai-Workers')?.hasAttribute('data-dense')).toBe(true);
    expect(text(drawn.querySelector('.jp-Kai-Worker .jp-Kai-Sr'))).toBe('Worker 0 fits');
  });

  it('running: progress of each rank, the one that is behind marked in words too', () => {
    const pods = [1240, 1240, 1100].map((step, rank) =>
      pod(rank, {
        state: 'Running',
        node: 'gpu-3',
        progress: { step, total: 3200, metrics: { loss: 0.2981 }, at: NOW }
      })
    );
    const drawn = card(
      gang(3, 3, { state: 'Running', tone: 'run', icon: 'triangle', word: 'Running', pods }),
      STAGE
    );
    const rows = [...drawn.querySelectorAll('tbody tr')];
    expect(rows.map(row => row.className)).toEqual(['', '', 'slow']);
    expect(text(rows[0] ?? null)).toContain('1,240');
    expect(text(rows[2] ?? null)).toContain('behind');
    expect(drawn.querySelector('[role="progressbar"]')?.getAttribute('aria-valuenow')).toBe('39');
  });

  it('failed: the first failure at its line, the others stopped', () => {
    const drawn = card(failedGang(), STAGE);
    expect([...drawn.querySelectorAll('.jp-Kai-Worker > span')].map(text)).toEqual([
      'stopped',
      'failed',
      'stopped'
    ]);
    expect(text(drawn.querySelector('mark'))).toBe('2b = <c>');
    expect(text(drawn.querySelector('.jp-Kai-Trace'))).toContain('Line 2 of the cell, worker 1');
    expect(text(drawn.querySelector('summary:not(.jp-Kai-Button)'))).toContain('1 frame');
  });

  it('result: what came back and the code that fetches it', () => {
    const done = gang(2, 2, {
      state: 'Succeeded',
      word: 'Result ready',
      tone: 'ok',
      icon: 'tick',
      results: [{ name: 'loss', text: '0.2143', size: 8 }],
      actions: []
    });
    const drawn = card(done, STAGE);
    expect(text(drawn.querySelector('.jp-Kai-Facts'))).toBe('loss0.2143 (1 KiB)');
    expect(text(drawn.querySelector('.jp-Kai-Snippet'))).toBe('%gang result sweep-lr');
  });
});
