/** What the page knows, as one frozen value, and how a message of the stream changes it. No clock, no socket. */

import type { NodeView, Notice, PodGroupView, QueueView, StreamEvent } from '../api/schema';

export type KaiState = {
  readonly rev: number;
  readonly groups: ReadonlyMap<string, PodGroupView>;
  readonly queues: ReadonlyArray<QueueView>;
  readonly nodes: ReadonlyArray<NodeView>;
  /** Whether a snapshot came yet. */
  readonly loaded: boolean;
};

export const NOTHING_KNOWN: KaiState = {
  rev: 0,
  groups: new Map(),
  queues: [],
  nodes: [],
  loaded: false
};

/** The key of a group: "namespace/name". */
export function keyOf(group: Pick<PodGroupView, 'namespace' | 'name'>): string {
  return `${group.namespace}/${group.name}`;
}

/** A group that passed into another state. */
export type Transition = { readonly before: PodGroupView | null; readonly after: PodGroupView };

export type Step = {
  readonly state: KaiState;
  readonly transitions: ReadonlyArray<Transition>;
  readonly notices: ReadonlyArray<Notice>;
};

/** Return what is known after `event`. A snapshot replaces everything; an update older than the state changes nothing. */
export function next(state: KaiState, event: StreamEvent): Step {
  if (event.kind === 'update' && event.rev < state.rev) {
    return { state, transitions: [], notices: [] };
  }
  const groups = new Map(event.kind === 'snapshot' ? [] : state.groups);
  for (const key of event.removed) {
    groups.delete(key);
  }
  for (const group of event.groups) {
    groups.set(keyOf(group), group);
  }
  return {
    state: {
      rev: event.rev,
      groups,
      queues: event.queues ?? (event.kind === 'snapshot' ? [] : state.queues),
      nodes: event.nodes ?? (event.kind === 'snapshot' ? [] : state.nodes),
      loaded: true
    },
    transitions: state.loaded ? transitions(state, event) : [],
    notices: event.notices
  };
}

function transitions(state: KaiState, event: StreamEvent): Transition[] {
  return event.groups.flatMap(after => {
    const before = state.groups.get(keyOf(after)) ?? null;
    return before === null || before.state !== after.state || before.word !== after.word
      ? [{ before, after }]
      : [];
  });
}

const ENDED = new Set(['Succeeded', 'Failed', 'Cancelled', 'Evicted']);

/** Whether a group still waits or holds. */
export function isLive(group: PodGroupView): boolean {
  return !ENDED.has(group.state);
}

/** The caller's own groups, those that need a look first, then the newest. */
export function mine(state: KaiState): ReadonlyArray<PodGroupView> {
  return [...state.groups.values()]
    .filter(group => group.mine)
    .sort((a, b) => Number(isLive(b)) - Number(isLive(a)) || b.created_at - a.created_at);
}

/** The newest group that a kernel or a notebook asked for, live ones first. */
export function groupOfNotebook(
  state: KaiState,
  kernelId: string | null,
  notebook: string | null
): PodGroupView | null {
  const asked = mine(state).filter(
    ({ kind, origin }) =>
      kind !== 'gang' &&
      ((kernelId !== null && origin.kernel_id === kernelId) ||
        (origin.kernel_id === null && notebook !== null && origin.notebook === notebook))
  );
  return asked[0] ?? null;
}

/** Milli-GPU that the caller holds now. */
export function heldMilli(state: KaiState): number {
  return [...state.groups.values()]
    .filter(group => group.mine)
    .flatMap(group => group.pods)
    .filter(pod => pod.state === 'Running' || pod.state === 'Bound' || pod.state === 'Binding')
    .flatMap(pod => pod.devices)
    .reduce((sum, device) => sum + device.milli, 0);
}

/** The largest part of a GPU that is free now on one device, in milli-GPU. */
export function largestFreeMilli(state: KaiState): number {
  const free = state.nodes
    .filter(node => node.schedulable)
    .flatMap(node => node.devices.map(device => 1000 - device.allocated_milli));
  return Math.max(0, ...free);
}
