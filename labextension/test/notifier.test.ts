// @vitest-environment jsdom
import { describe, expect, it, vi } from 'vitest';
import type { Notice } from '../src/api/schema';
import { plainWords } from '../src/draw/words';
import { Notifier } from '../src/view/notifier';

const emit = vi.hoisted(() => vi.fn());
vi.mock('@jupyterlab/apputils', () => ({ Notification: { emit } }));

const notice = (kind: Notice['kind']): Notice => ({
  at: 0,
  kind,
  namespace: 'ana',
  name: 'train',
  text: '0.5 GPU. mira: Releases 0.5 GPU. It did nothing today.',
  facts: {}
});

describe('what a lead did', () => {
  it('is told with its reason, also to who wants to hear of nothing', () => {
    const notifier = new Notifier({ trans: plainWords, show: () => undefined, wants: () => false });
    notifier.noticed(notice('ending'));
    expect(emit).not.toHaveBeenCalled();
    notifier.noticed(notice('lead'));
    expect(emit).toHaveBeenCalledOnce();
    expect(emit.mock.calls[0]?.[0]).toContain('It did nothing today.');
    expect(emit.mock.calls[0]?.[1]).toBe('warning');
  });
});
