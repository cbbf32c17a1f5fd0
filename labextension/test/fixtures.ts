/** Views as the service sends them, one of each; a test says only what it is about. */

import type {
  ActionView,
  LogLine,
  NodeView,
  PodGroupView,
  PodView,
  StreamEvent
} from '../src/api/schema';

export const NOW = Date.UTC(2026, 0, 5, 10, 30);
const MINUTE = 60_000;

export function action(
  id: ActionView['id'],
  label: string,
  more: Partial<ActionView> = {}
): ActionView {
  return { id, label, eta_text: null, submit: null, code: null, ...more };
}

export function pod(rank: number, more: Partial<PodView> = {}): PodView {
  return {
    name: `train-${rank}`,
    rank,
    state: 'Pending',
    incarnation: null,
    node: null,
    address: null,
    devices: [],
    fits: null,
    started_at: null,
    ended_at: null,
    exit_code: null,
    signal: null,
    reason: null,
    progress: null,
    ...more
  };
}

/** A lease that waits: position 3 of 7, about 6 min. */
export function group(more: Partial<PodGroupView> = {}): PodGroupView {
  const headline = 'Position 3 of 7. About 6 min (4 to 11).';
  const detail = 'Team-a uses 7.75 of 8 GPUs; 0.5 more makes 8.25.';
  return {
    namespace: 'ana',
    name: 'lease',
    owner: 'ana',
    mine: true,
    kind: 'lease',
    queue: 'team-a',
    request: {
      text: '0.5 GPU',
      whole: 0,
      fraction_milli: 500,
      memory_mib: 0,
      devices: 1,
      cpu_milli: 0,
      memory_bytes: 0,
      share_mib: 40 * 1024
    },
    workers: 1,
    min_members: 1,
    priority: 100,
    preemptible: false,
    state: 'Waiting',
    word: 'Waiting',
    tone: 'wait',
    icon: 'hourglass',
    headline,
    detail,
    sentence: `${headline} ${detail}`,
    rev: 1,
    created_at: NOW - 6 * MINUTE,
    reason: null,
    actions: [
      action('smaller', '0.25 GPU, 20 GiB', { eta_text: 'now' }),
      action('why', 'Why'),
      action('cancel', 'Cancel')
    ],
    position: 3,
    waiting_in_queue: 7,
    overall: 9,
    eta: {
      earliest_at: NOW + 4 * MINUTE,
      likely_at: NOW + 6 * MINUTE,
      latest_at: NOW + 11 * MINUTE,
      basis: 'declared',
      text: 'about 6 min (4 to 11)'
    },
    declared_run_s: null,
    expires_at: null,
    granted_at: null,
    ended_at: null,
    ended_by: null,
    gpu_seconds: 0,
    origin: { notebook: 'work/train.ipynb', kernel_id: 'k1', cell_id: null, host: null },
    pods: [pod(0)],
    failure: null,
    results: [],
    notes: [],
    simulated: false,
    timeline: [{ at: NOW - 6 * MINUTE, text: 'Asked: position 5 of 8' }],
    ...more
  };
}

/** A gang of `workers` that waits, of which `fitting` would fit. */
export function gang(
  workers: number,
  fitting: number,
  more: Partial<PodGroupView> = {}
): PodGroupView {
  return group({
    name: 'sweep-lr',
    kind: 'gang',
    workers,
    min_members: workers,
    icon: 'squares',
    headline: `${fitting} of ${workers} workers fit. Starts when all ${workers} do.`,
    detail: '',
    actions: [action('why', 'Why'), action('cancel', 'Cancel')],
    pods: Array.from({ length: workers }, (_, rank) => pod(rank, { fits: rank < fitting })),
    ...more
  });
}

export function granted(more: Partial<PodGroupView> = {}): PodGroupView {
  const device = {
    id: 'GPU-2',
    index: 2,
    model: 'H100',
    memory_mib: 80 * 1024,
    milli: 500,
    share_mib: 40 * 1024,
    simulated: false
  };
  return group({
    state: 'Running',
    word: 'Granted',
    tone: 'ok',
    icon: 'tick',
    headline: '0.5 GPU on gpu-3 until 14:00 (40 GiB)',
    detail: 'Queue team-a, waited 12 min.',
    granted_at: NOW,
    expires_at: NOW + 210 * MINUTE,
    position: null,
    eta: null,
    actions: [
      action('release', 'Release', { code: '%gpu release' }),
      action('extend', 'Extend 1 h', { code: '%gpu extend 1h' })
    ],
    pods: [pod(0, { state: 'Running', node: 'gpu-3', devices: [device] })],
    ...more
  });
}

export function node(more: Partial<NodeView> = {}): NodeView {
  const own = {
    namespace: 'ana',
    name: 'lease',
    who: 'you',
    mine: true,
    queue: 'team-a',
    milli: 500,
    memory_mib: null,
    releasing: false
  };
  return {
    name: 'gpu-3',
    simulated: true,
    milli_cpu: 8000,
    memory_bytes: 2 ** 36,
    max_pods: 110,
    milli_gpu: 1000,
    allocated_milli_gpu: 500,
    labels: {},
    devices: [
      {
        id: 'GPU-2',
        index: 2,
        model: 'H100',
        memory_mib: 81920,
        simulated: true,
        allocated_milli: 500,
        holders: [own],
        foreign_pids: [],
        foreign: [],
        used_mib: null,
        busy_percent: null
      }
    ],
    schedulable: true,
    ...more
  };
}

export function event(more: Partial<StreamEvent> = {}): StreamEvent {
  return {
    kind: 'update',
    rev: 1,
    now: NOW,
    groups: [],
    removed: [],
    queues: null,
    nodes: null,
    notices: [],
    ...more
  };
}

export function logLine(seq: number, rank: number, text: string): LogLine {
  return { seq, at: NOW + seq, rank, stream: 'stdout', text };
}
