// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { plainWords } from '../src/draw/words';
import { request } from '../src/view/sections';
import { granted, NOW } from './fixtures';

describe('a request in the panel', () => {
  it('says in one sentence how old it is while the queue does not answer', () => {
    const kept = granted({ headline: 'Finished at 16:14. 0.5 GPU is released.' });
    const text = request(kept, '18 s', NOW, plainWords).textContent?.replace(/\u00a0/g, ' ');
    expect(text).toContain('0.5 GPU is released, as of 18 s ago');
  });
});
