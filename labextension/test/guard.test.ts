import { describe, expect, it } from 'vitest';
import { guarded, isA, UnexpectedData } from '../src/api/guard';
import { event, group, node } from './fixtures';

describe('the guard', () => {
  it('lets through what the service promises', () => {
    const sent = event({ kind: 'snapshot', groups: [group()], queues: [], nodes: [node()] });
    expect(guarded('StreamEvent', JSON.parse(JSON.stringify(sent)))).toEqual(sent);
  });

  it('names the field that differs, deep inside', () => {
    const sent = event({ groups: [{ ...group(), position: 'third' as unknown as number }] });
    expect(() => guarded('StreamEvent', sent)).toThrowError(
      new UnexpectedData('StreamEvent.groups[0].position')
    );
  });

  it('refuses a word that is not one of the closed choices', () => {
    expect(isA('PodGroupView', { ...group(), tone: 'purple' })).toBe(false);
  });

  it('refuses what is missing, and what is no record at all', () => {
    expect(isA('PodGroupView', { ...group(), headline: undefined })).toBe(false);
    expect(isA('PodGroupView', null)).toBe(false);
    expect(isA('PodGroupView', [])).toBe(false);
  });

  it('ignores fields that a newer service adds', () => {
    expect(isA('PodGroupView', { ...group(), colour: 'blue' })).toBe(true);
  });
});
