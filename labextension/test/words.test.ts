import { describe, expect, it } from 'vitest';
import { amountOf, askCode } from '../src/draw/ask';
import { headlineAt } from '../src/draw/countdown';
import { bytes, duration, gpus, memory, plainWords, unbroken } from '../src/draw/words';
import { secondsOf } from '../src/model/actions';
import { group, NOW } from './fixtures';

describe('the countdown', () => {
  const view = group();

  it('says what the service said at the moment it was said', () => {
    expect(headlineAt(view, NOW)).toBe(view.headline);
  });

  it.each([
    [120_000, 'Position 3 of 7. About 4 min (2 to 9).'],
    [260_000, 'Position 3 of 7. About 100 s (0 s to 7 min).'],
    [400_000, view.headline]
  ])('%s ms later it says', (passed, said) => expect(headlineAt(view, NOW + passed)).toBe(said));

  it('leaves a headline alone that says no time', () => {
    expect(headlineAt({ ...view, headline: 'Checking your quota.' }, NOW)).toBe(
      'Checking your quota.'
    );
  });
});

describe('words', () => {
  it.each([
    [500, '0.5'],
    [7750, '7.75'],
    [2000, '2']
  ])('%s milli-GPU are %s', (milli, said) => expect(gpus(milli)).toBe(said));

  it.each([
    [40, '40 s'],
    [360, '6 min'],
    [3600, '1 h'],
    [12_240, '3 h 24 min']
  ])('%s seconds are %s', (seconds, said) =>
    expect(duration(seconds).replace(/\u00a0/g, ' ')).toBe(said)
  );

  it('memory and sizes carry their unit', () => {
    expect(
      [memory(512), memory(20_480), memory(1536), bytes(8), bytes(5 * 2 ** 20)].map(said =>
        said.replace('\u00a0', ' ')
      )
    ).toEqual(['512 MiB', '20 GiB', '1.5 GiB', '1 KiB', '5 MiB']);
  });

  it('numbers never part from their units', () => {
    expect(unbroken('Position 3 of 7. About 6 min')).toBe(
      'Position 3\u00a0of\u00a07. About 6\u00a0min'
    );
  });

  it('amounts say GPU or GPUs', () => {
    expect(['0.25', '1', '2'].map(gpu => amountOf(gpu, plainWords).replace('\u00a0', ' '))).toEqual(
      ['0.25 GPU', '1 GPU', '2 GPUs']
    );
  });

  it('the code asks for what was picked', () => {
    expect(askCode('0.5', { gpu: '0.5', queue: 'b', duration: '2h' }, ['a', 'b'])).toBe(
      '%gpu 0.5 --queue b --for 2h'
    );
    expect(askCode('0.5', { gpu: null, queue: 'a', duration: '' }, ['a'])).toBe('%gpu 0.5');
  });

  it.each([
    ['%gpu extend 1h', 3600],
    ['%gpu extend 30min', 1800],
    ['45s', 45],
    [null, 3600]
  ])('%s lengthens by %s s', (code, seconds) => expect(secondsOf(code)).toBe(seconds));
});
