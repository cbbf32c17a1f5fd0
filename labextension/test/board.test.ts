// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { TeamView } from '../src/api/schema';
import { dayTime } from '../src/widget/leadWish';
import board from '../src/widget/team';

const NOW = 1_800_000_000_000;

function view(more: Partial<TeamView> = {}): TeamView {
  return {
    rev: 1,
    now: NOW,
    title: 'Queue team-a',
    subtitle: '2 GPUs on 1 node, 2 queues, 2 people here today',
    simulated: true,
    user: 'mira',
    led: ['team-a'],
    may_change: true,
    numbers: [
      {
        id: 'allocated',
        label: 'Allocated',
        value: '1.5',
        unit: 'of 2 GPUs of quota',
        trend: 'up',
        trend_text: '1 more than an hour ago',
        points: [0, 1, 1.5],
        points_text: 'Allocated GPUs, last 8 h'
      }
    ],
    needs: [],
    queues: [queue('team-a', 2000, true), queue('team-b', 2000, false)],
    people: [],
    people_count: 0,
    waiting: [
      {
        group: 'ana/train',
        name: 'train',
        who: 'ana',
        queue: 'team-a',
        position: 1,
        asks: 1000,
        asks_text: '1 GPU',
        reason: 'Needs 1 GPU; <b>none</b> is free.',
        since: NOW - 600_000,
        eta_text: 'about 6 min (4 to 11)',
        late: false,
        priority: 100,
        first: true,
        last: true
      }
    ],
    leases: [],
    gangs: [],
    use: { at: [], allocated: [], requested: [], capacity: 2000 },
    changes: [],
    ...more
  };
}

function queue(name: string, quota: number | null, leads: boolean): TeamView['queues'][number] {
  return {
    name,
    parent: null,
    depth: 0,
    is_leaf: true,
    leads,
    allocated: 1000,
    quota,
    fair_share: 1000,
    requested: 2000,
    limit: null,
    borrowed: 0,
    waiting: 1,
    sentence: '1 of its quota free.',
    lent: 0,
    drained: false
  };
}

class FakeModel {
  readonly sent: Array<Record<string, unknown>> = [];
  readonly listeners = new Map<string, Set<(message?: unknown) => void>>();
  readonly traits: Record<string, unknown> = { view: view(), offline: '' };

  get(name: string): unknown {
    return this.traits[name];
  }

  set(name: string, value: unknown): void {
    this.traits[name] = value;
    this.emit(`change:${name}`);
  }

  on(event: string, then: (message?: unknown) => void): void {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(then));
  }

  off(event: string, then: (message?: unknown) => void): void {
    this.listeners.get(event)?.delete(then);
  }

  emit(event: string, message?: unknown): void {
    this.listeners.get(event)?.forEach(then => then(message));
  }

  send(message: unknown): void {
    this.sent.push(message as Record<string, unknown>);
  }

  get count(): number {
    return [...this.listeners.values()].reduce((sum, set) => sum + set.size, 0);
  }
}

function shown(model = new FakeModel()): { model: FakeModel; el: HTMLElement; end: () => void } {
  const el = document.createElement('div');
  document.body.append(el);
  return { model, el, end: board.render({ model, el }) };
}

beforeEach(() => {
  document.body.replaceChildren();
  vi.useRealTimers();
});

describe('the page of a lead', () => {
  it('says what the service says, as text and never as markup', () => {
    const { el, end } = shown();
    expect(el.querySelector('h1')?.textContent).toBe('Queue team-a');
    expect(el.querySelector('.four')?.textContent).toContain('1.5');
    expect(el.querySelector('.waits')?.textContent).toContain('<b>none</b> is free.');
    expect(el.querySelector('.waits .when')?.textContent).toBe('about 6\u00a0min');
    end();
  });

  it('says that there is no limit instead of a number', () => {
    const { el, end } = shown();
    const cells = [...el.querySelectorAll('.cols .tbl tbody tr:first-child td.num')].map(
      c => c.textContent
    );
    expect(cells).toEqual(['1.00', '2.00', '1.00', '2.00', 'none']);
    end();
  });

  it('offers nothing to change where changes are made elsewhere', () => {
    const model = new FakeModel();
    model.traits.view = view({ may_change: false });
    const { el, end } = shown(model);
    expect(el.querySelector('.whatif')).toBeNull();
    expect(el.querySelectorAll('details.jp-Kai-Menu')).toHaveLength(0);
    end();
  });

  it('tells the kernel that somebody looks, and lets go of everything at the end', () => {
    vi.useFakeTimers();
    const { model, end } = shown();
    expect(model.sent.filter(message => message.kind === 'look')).toHaveLength(1);
    vi.advanceTimersByTime(10_500);
    expect(model.sent.filter(message => message.kind === 'look')).toHaveLength(3);
    expect(model.count).toBeGreaterThan(0);
    end();
    expect(model.count).toBe(0);
    vi.advanceTimersByTime(60_000);
    expect(model.sent.filter(message => message.kind === 'look')).toHaveLength(3);
  });

  it('L095: three views of one board, two of them closed, leave the listeners of one', () => {
    const model = new FakeModel();
    const views = [shown(model), shown(model), shown(model)];
    const each = model.count / 3;
    views[0]?.end();
    views[2]?.end();
    expect(model.count).toBe(each);
    for (let times = 0; times < 50; times += 1) {
      shown(model).end();
    }
    expect(model.count).toBe(each);
    views[1]?.end();
  }, 60_000);

  it('asks what lending would do, and shows the answer and a refusal in their words', async () => {
    vi.useFakeTimers();
    const { model, el, end } = shown();
    await vi.advanceTimersByTimeAsync(600);
    const asked = model.sent.find(message => message.kind === 'what_if');
    expect(asked?.ask).toMatchObject({ kind: 'lend', queue: 'team-a', to: 'team-b', gpu: '1' });
    model.emit('msg:custom', {
      kind: 'answer',
      id: asked?.id,
      trouble: 'team-a has no quota to lend.'
    });
    await vi.advanceTimersByTimeAsync(50);
    expect(el.querySelector('.whatif [role=alert]')?.textContent).toBe(
      'team-a has no quota to lend.'
    );
    end();
  });

  it('keeps what was typed while the numbers change', async () => {
    vi.useFakeTimers();
    const { model, el, end } = shown();
    const reason = el.querySelector<HTMLInputElement>('[name=reason]');
    if (reason === null) {
      throw new Error('there is no reason to type');
    }
    reason.value = 'Deadline';
    model.set('view', view({ rev: 2, title: 'Queue team-z' }));
    await vi.advanceTimersByTimeAsync(50);
    expect(el.querySelector('h1')?.textContent).toBe('Queue team-z');
    expect(el.querySelector<HTMLInputElement>('[name=reason]')?.value).toBe('Deadline');
    end();
  });

  it('says why there is nothing, and shows the last numbers while the queue is away', async () => {
    vi.useFakeTimers();
    const model = new FakeModel();
    model.traits.view = {};
    model.traits.offline = 'mira leads no queue here.';
    const { el, end } = shown(model);
    expect(el.textContent).toBe('mira leads no queue here.');
    model.set('view', view());
    model.set('offline', 'The queue does not answer.');
    await vi.advanceTimersByTimeAsync(50);
    expect(el.querySelector('.away')?.textContent).toContain('The queue does not answer.');
    expect(el.querySelector('.four')?.textContent).toContain('1.5');
    end();
  });
});

describe('a time of day', () => {
  const noon = new Date(2027, 0, 15, 12, 0).getTime();

  it('is the next one', () => {
    expect(dayTime('18:00', noon)).toBe(noon + 6 * 3_600_000);
    expect(dayTime('09:30', noon)).toBe(noon + 21.5 * 3_600_000);
    expect(dayTime('soon', noon)).toBeNull();
  });
});
