// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import widget, { type IWidgetModel } from '../src/widget/card';
import { granted, group, NOW } from './fixtures';

class FakeModel implements IWidgetModel {
  sent: unknown[] = [];
  private _heard = new Map<string, Set<(message?: unknown) => void>>();
  constructor(private _traits: Record<string, unknown>) {}
  get listeners(): number {
    return [...this._heard.values()].reduce((sum, set) => sum + set.size, 0);
  }
  get(name: string): unknown {
    return this._traits[name];
  }
  on(name: string, then: (message?: unknown) => void): void {
    this._heard.set(name, (this._heard.get(name) ?? new Set()).add(then));
  }
  off(name: string, then: (message?: unknown) => void): void {
    this._heard.get(name)?.delete(then);
  }
  send(message: unknown): void {
    this.sent.push(message);
  }
}

const NEWS = { nodes: [], now: NOW, connected: true, age_s: 0, retry_s: null };
const SUBMIT = {
  kind: 'lease',
  name: null,
  queue: null,
  gpu: '0.5',
  gpu_memory: null,
  devices: 1,
  cpu: null,
  memory: null,
  workers: 1,
  min_members: null,
  priority: null,
  preemptible: null,
  declared_run_s: null,
  lease_s: null,
  max_wait_s: null,
  grace_s: 15,
  work: null,
  signature: null,
  process: null,
  origin: { notebook: null, kernel_id: null, cell_id: null, host: null },
  cluster: null
};
const CHOICE = {
  verdict: 'now',
  text: 'now',
  queue: 'team-a',
  request: group().request,
  workers: 1,
  position: null,
  waiting_in_queue: null,
  eta: null,
  reason: null,
  simulated: false,
  gpu: '0.5',
  submit: SUBMIT
};
let host: HTMLElement;
let dispose: (() => void) | null = null;

function shown(traits: Record<string, unknown>): FakeModel {
  const model = new FakeModel(traits);
  dispose = widget.render({ model, el: host });
  return model;
}

function tell(detail: unknown): void {
  window.dispatchEvent(new CustomEvent('kai:requests', { detail }));
}

async function frame(): Promise<void> {
  await new Promise(resolve => requestAnimationFrame(resolve));
}

beforeEach(() => {
  host = document.createElement('div');
  document.body.replaceChildren(host);
});

afterEach(() => {
  dispose?.();
  dispose = null;
});

describe('the card as a widget', () => {
  it('shows the view of the kernel at once', () => {
    shown({ view: group() });
    expect(host.textContent).toContain('Position');
  });

  it("follows the page's news while the kernel says nothing, and never goes back", async () => {
    shown({ view: group({ rev: 5 }) });
    tell({ ...NEWS, groups: [granted({ rev: 6 })] });
    await frame();
    expect(host.textContent).toContain('Granted');
    tell({ ...NEWS, groups: [group({ rev: 2 })] });
    await frame();
    expect(host.textContent).toContain('Waiting');
    expect(host.querySelector('[data-do="cancel"]')).not.toBeNull();
  });

  it('says that it is offline when the page is', async () => {
    shown({ view: group() });
    tell({ ...NEWS, groups: [group()], connected: false, age_s: 40, retry_s: 8 });
    await frame();
    expect(host.textContent).toContain('The queue does not answer');
  });

  it('knows a request of an earlier session', async () => {
    shown({ view: group() });
    tell({ ...NEWS, groups: [] });
    await frame();
    expect(host.textContent).toContain('Earlier session');
  });

  it('without a server behind the page it asks the kernel', () => {
    const model = shown({ view: granted() });
    host.querySelector<HTMLElement>('[data-do="release"]')?.click();
    expect(model.sent).toEqual([{ kind: 'action', id: 'release', submit: null, by_s: null }]);
  });

  it("with a server it cancels past the kernel, with the page's token and XSRF", async () => {
    const config = document.createElement('script');
    config.id = 'jupyter-config-data';
    config.type = 'application/json';
    config.textContent = JSON.stringify({ baseUrl: '/user/ana/', token: 'secret' });
    document.body.append(config);
    const fetched = vi
      .spyOn(globalThis, 'fetch')
      .mockResolvedValue(new Response(JSON.stringify(group({ state: 'Cancelled' }))));
    const model = shown({ view: group() });
    host.querySelector<HTMLElement>('[data-do="cancel"]')?.click();
    await frame();
    expect(fetched.mock.calls[0]?.[0]).toBe('/user/ana/kai/pod-groups/ana/lease/cancel');
    expect(fetched.mock.calls[0]?.[1]?.headers).toMatchObject({ Authorization: 'token secret' });
    expect(model.sent).toEqual([]);
  });

  describe('with a server, a release', () => {
    let fetched: MockInstance<typeof fetch>;
    const click = (what: string) => host.querySelector<HTMLElement>(`[data-do="${what}"]`)?.click();

    beforeEach(async () => {
      vi.useFakeTimers({
        toFake: ['Date', 'setInterval', 'clearInterval', 'requestAnimationFrame']
      });
      const config = document.createElement('script');
      config.id = 'jupyter-config-data';
      config.type = 'application/json';
      config.textContent = JSON.stringify({ baseUrl: '/', token: '' });
      document.body.append(config);
      fetched = vi
        .spyOn(globalThis, 'fetch')
        .mockImplementation(() =>
          Promise.resolve(new Response(JSON.stringify(group({ state: 'Cancelled' }))))
        );
      fetched.mockClear();
      shown({ view: granted() });
      click('release');
      await vi.advanceTimersByTimeAsync(20);
    });

    afterEach(() => {
      vi.useRealTimers();
    });

    it('can be undone for five seconds, and then nothing has happened', async () => {
      expect(host.textContent).toMatch(/Released.* used.*Undo.*5.s/);
      vi.advanceTimersByTime(3000);
      await vi.advanceTimersByTimeAsync(20);
      expect(host.textContent).toMatch(/Undo.*2.s/);
      click('undo');
      await vi.advanceTimersByTimeAsync(20);
      expect(host.textContent).toContain('Granted');
      vi.advanceTimersByTime(10_000);
      expect(fetched).not.toHaveBeenCalled();
    });

    it('is sent once when they are over', () => {
      vi.advanceTimersByTime(4900);
      expect(fetched).not.toHaveBeenCalled();
      vi.advanceTimersByTime(10_000);
      expect(fetched.mock.calls.map(call => call[0])).toEqual(['/kai/pod-groups/ana/lease/cancel']);
    });

    it('is sent at once when the page or the card goes', () => {
      window.dispatchEvent(new Event('pagehide'));
      expect(fetched).toHaveBeenCalledTimes(1);
      expect(fetched.mock.calls[0]?.[1]).toMatchObject({ keepalive: true });
      dispose?.();
      dispose = null;
      expect(fetched).toHaveBeenCalledTimes(1);
    });
  });

  it('a refusal is said under the card', async () => {
    const config = document.createElement('script');
    config.id = 'jupyter-config-data';
    config.type = 'application/json';
    config.textContent = JSON.stringify({ baseUrl: '/', token: '' });
    document.body.append(config);
    const problem = {
      type: 'about:blank',
      title: 'No',
      status: 409,
      detail: 'It has ended already.',
      hint: 'Ask again.',
      code: 'ended',
      facts: {}
    };
    vi.spyOn(globalThis, 'fetch').mockResolvedValue(
      new Response(JSON.stringify(problem), { status: 409 })
    );
    shown({ view: group() });
    host.querySelector<HTMLElement>('[data-do="cancel"]')?.click();
    await vi.waitFor(() => expect(host.textContent).toContain('It has ended already. Ask again.'));
  });

  it('says on the card that asks whether the GPUs are simulated', () => {
    const asked = (simulated: boolean) => ({
      choices: [{ ...CHOICE, simulated }],
      queues: ['team-a'],
      durations: ['']
    });
    shown({ view: {}, ask: asked(true) });
    expect(host.querySelector('.jp-Kai-Notes')?.textContent).toContain('simulated');
    shown({ view: {}, ask: asked(false) });
    expect(host.textContent).not.toContain('simulated');
  });

  it('asks for what was picked on the card that asks', async () => {
    const model = shown({
      view: {},
      ask: { choices: [CHOICE], queues: ['team-a', 'batch'], durations: ['', '2h'] }
    });
    const lasts = host.querySelector<HTMLSelectElement>(
      '[data-pick="duration"]'
    ) as HTMLSelectElement;
    lasts.value = '2h';
    lasts.dispatchEvent(new Event('change', { bubbles: true }));
    await frame();
    expect(host.querySelector('code')?.textContent).toBe('%gpu 0.5 --for 2h');
    host.querySelector<HTMLElement>('[data-do="ask"]')?.click();
    expect(model.sent).toEqual([{ kind: 'ask', id: 'ask', submit: { ...SUBMIT, lease_s: 7200 } }]);
  });

  it('lets go of all it listens to', async () => {
    const model = shown({ view: group() });
    dispose?.();
    dispose = null;
    expect(model.listeners).toBe(0);
    tell({ ...NEWS, groups: [granted({ rev: 9 })] });
    await frame();
    expect(host.textContent).not.toContain('Granted');
  });
});

describe('several cards in a page', () => {
  type Widget = typeof widget;
  let disposals: Array<() => void> = [];

  /** A widget of its own module, as anywidget loads each. */
  async function another(traits: Record<string, unknown>): Promise<HTMLElement> {
    vi.resetModules();
    const own = (await import('../src/widget/card')) as { default: Widget };
    const el = document.createElement('div');
    document.body.append(el);
    disposals.push(own.default.render({ model: new FakeModel(traits), el }));
    return el;
  }

  function name(el: HTMLElement): string | null | undefined {
    return el.querySelector('[role="region"]')?.getAttribute('aria-label');
  }

  afterEach(() => {
    disposals.forEach(end => end());
    disposals = [];
  });

  it('of one group have names of their own, and a name that is free again is used again', async () => {
    const first = await another({ view: group() });
    const second = await another({ view: group() });
    const other = await another({ view: group({ name: 'second' }) });
    expect([first, second, other].map(name)).toEqual([
      'GPU request lease, Waiting',
      'GPU request lease, Waiting, card 2',
      'GPU request second, Waiting'
    ]);
    tell({ ...NEWS, groups: [group()] }); // a card that is gone draws no more, and takes no number
    disposals.shift()?.();
    await frame();
    expect(name(await another({ view: group() }))).toBe('GPU request lease, Waiting');
  });

  it('that ask keep their choices apart', async () => {
    const ask = { choices: [CHOICE], queues: ['a', 'b'], durations: ['', '2h'] };
    const [first, second] = [await another({ view: {}, ask }), await another({ view: {}, ask })];
    const names = [first, second].map(el => el.querySelector('input')?.name);
    expect(names[0]).toBeTruthy();
    expect(names[0]).not.toBe(names[1]);
    expect(name(first)).not.toBe(name(second));
  });
});
