import { describe, expect, it } from 'vitest';
import {
  groupOfNotebook,
  heldMilli,
  type KaiState,
  keyOf,
  largestFreeMilli,
  mine,
  next,
  NOTHING_KNOWN
} from '../src/model/state';
import { event, granted, group, node } from './fixtures';

function known(...groups: ReturnType<typeof group>[]): KaiState {
  return next(NOTHING_KNOWN, event({ kind: 'snapshot', groups, queues: [], nodes: [node()] }))
    .state;
}

describe('what the page knows', () => {
  it('a snapshot replaces everything and is no news', () => {
    const before = known(group({ name: 'old' }));
    const { state, transitions } = next(
      before,
      event({ kind: 'snapshot', groups: [group()], rev: 7 })
    );
    expect([...state.groups.keys()]).toEqual(['ana/lease']);
    expect(state.rev).toBe(7);
    expect(transitions.map(({ after }) => after.name)).toEqual(['lease']);
    expect(next(NOTHING_KNOWN, event({ kind: 'snapshot', groups: [group()] })).transitions).toEqual(
      []
    );
  });

  it('an update changes only what it names', () => {
    const before = known(group(), group({ name: 'other' }));
    const { state } = next(before, event({ rev: 2, removed: ['ana/other'] }));
    expect([...state.groups.keys()]).toEqual(['ana/lease']);
    expect(state.nodes).toBe(before.nodes);
  });

  it('an update older than what is known changes nothing', () => {
    const before = next(known(group()), event({ rev: 9 })).state;
    expect(next(before, event({ rev: 3, removed: ['ana/lease'] })).state).toBe(before);
  });

  it('a change of state is a transition with its before', () => {
    const { transitions } = next(known(group()), event({ rev: 2, groups: [granted()] }));
    expect(transitions).toHaveLength(1);
    expect(transitions[0]?.before?.state).toBe('Waiting');
    expect(transitions[0]?.after.state).toBe('Running');
  });

  it('mine come live first, then the newest', () => {
    const state = known(
      group({ name: 'ended', state: 'Succeeded', created_at: 9 }),
      group({ name: 'old', created_at: 1 }),
      group({ name: 'new', created_at: 5 }),
      group({ name: 'theirs', mine: false })
    );
    expect(mine(state).map(({ name }) => name)).toEqual(['new', 'old', 'ended']);
  });

  it("a notebook's request is found by its kernel, and by its path only where no kernel is named", () => {
    const byPath = group({
      name: 'path',
      origin: { notebook: 'a.ipynb', kernel_id: null, cell_id: null, host: null }
    });
    const state = known(group(), byPath);
    expect(groupOfNotebook(state, 'k1', null)?.name).toBe('lease');
    expect(groupOfNotebook(state, null, 'a.ipynb')?.name).toBe('path');
    expect(groupOfNotebook(state, 'k2', 'work/train.ipynb')).toBeNull();
  });

  it('sums what I hold and knows the largest free part', () => {
    const state = known(granted());
    expect(heldMilli(state)).toBe(500);
    expect(largestFreeMilli(state)).toBe(500);
    expect(keyOf(granted())).toBe('ana/lease');
  });
});
