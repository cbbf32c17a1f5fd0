/* eslint-disable */
/**
 * Written by scripts/generate_schema.py from scheduler_service/wire. Change those files, then run `jlpm generate`.
 */


export type Kind = 'lease' | 'gang' | 'kernel' | 'server' | 'batch';

export type GroupState = 'Waiting' | 'Starting' | 'Running' | 'Stopping' | 'Suspended' | 'Succeeded' | 'Failed' | 'Cancelled' | 'Evicted';

export type PodState = 'Pending' | 'Gated' | 'Pipelined' | 'Binding' | 'Bound' | 'Running' | 'Releasing' | 'Succeeded' | 'Failed';

export type Tone = 'mute' | 'wait' | 'run' | 'ok' | 'stop';

export type ActionId = 'cancel' | 'release' | 'extend' | 'why' | 'ask_again' | 'smaller' | 'switch_queue' | 'restart_kernel' | 'logs' | 'result';

/** One thing the person can do next, with its own waiting time. `submit` is the ready request behind an offer. */
export type ActionView = {
  readonly id: 'cancel' | 'release' | 'extend' | 'why' | 'ask_again' | 'smaller' | 'switch_queue' | 'restart_kernel' | 'logs' | 'result';
  readonly label: string;
  readonly eta_text: string | null;
  readonly submit: Submit | null;
  readonly code: string | null;
};

/** Three resources; None = unlimited. */
export type Amounts = {
  readonly milli_gpu: number | null;
  readonly milli_cpu: number | null;
  readonly memory_bytes: number | null;
};

/** What a queue holds now, and what it would hold once the change has worked. `delta_text`: "+1.25" or "same". */
export type BeforeAfter = {
  readonly queue: string;
  readonly before_milli: number;
  readonly after_milli: number;
  readonly delta_text: string;
};

/** End or withdraw a group. `grace_s` None = what it was submitted with; `reason` is kept in the audit. */
export type Cancel = {
  readonly grace_s?: number | null;
  readonly reason?: string;
};

/** A change that was made. `text` says what, without the reason. */
export type ChangeView = {
  readonly id: number;
  readonly kind: 'priority' | 'cap' | 'release' | 'ask' | 'lend' | 'drain';
  readonly queue: string;
  readonly text: string;
  readonly reason: string;
  readonly by: string;
  readonly at: number;
  readonly until: number | null;
  readonly ended_at: number | null;
  readonly ended_by: string;
  readonly ended_why: string;
  readonly in_force: boolean;
  readonly may_undo: boolean;
};

/** What can be chosen in a cluster only; a service of one machine refuses it. */
export type ClusterAsk = {
  readonly namespace?: string | null;
  readonly image?: string | null;
  readonly profile?: string | null;
  readonly folder?: string | null;
  readonly workload?: 'PyTorchJob' | 'TrainJob' | 'RayJob' | null;
};

/** The part of one device that a pod holds. */
export type DeviceShare = {
  readonly id: string;
  readonly index: number;
  readonly model: string;
  readonly memory_mib: number | null;
  readonly milli: number;
  readonly share_mib: number | null;
  readonly simulated: boolean;
};

/** One GPU. `foreign_pids` are processes that use it without a lease of ours: it then counts as taken. */
export type DeviceView = {
  readonly id: string;
  readonly index: number;
  readonly model: string;
  readonly memory_mib: number | null;
  readonly simulated: boolean;
  readonly allocated_milli: number;
  readonly holders: ReadonlyArray<Holder>;
  readonly foreign_pids: ReadonlyArray<number>;
  readonly used_mib: number | null;
  readonly busy_percent: number | null;
  readonly foreign: ReadonlyArray<ForeignProcess>;
};

/** When it is expected to start. All None with basis "unknown" when nothing supports a number. */
export type EtaView = {
  readonly earliest_at: number | null;
  readonly likely_at: number | null;
  readonly latest_at: number | null;
  readonly basis: 'now' | 'declared' | 'observed' | 'mixed' | 'unknown';
  readonly text: string;
};

/** One fact and the one thing to do about it, in the order people need them. */
export type ExplainItem = {
  readonly title: string;
  readonly text: string;
  readonly action: ActionView | null;
};

/** Why a group stands as it does. */
export type ExplainView = {
  readonly namespace: string;
  readonly name: string;
  readonly headline: string;
  readonly position: number | null;
  readonly waiting_in_queue: number | null;
  readonly overall: number | null;
  readonly eta: EtaView | null;
  readonly reasons: ReadonlyArray<ReasonView>;
  readonly items: ReadonlyArray<ExplainItem>;
  readonly would_help: ReadonlyArray<ActionView>;
};

/** Lengthen a lease by `by_s`; None = keep until released. */
export type Extend = {
  readonly by_s?: number | null;
};

/** The first failure of the group, as the worker told it. `cell_line` counts from 1 in the cell that was sent. */
export type FailureView = {
  readonly rank: number;
  readonly at: number;
  readonly message: string;
  readonly traceback: string;
  readonly cell_line: number | null;
  readonly source: string | null;
};

/** What a request would get if it were made now. `text` is "now", "about 6 min (4 to 11)" or "never, because …". */
export type ForecastView = {
  readonly verdict: 'now' | 'about' | 'unknown' | 'never';
  readonly text: string;
  readonly queue: string;
  readonly request: RequestView;
  readonly workers: number;
  readonly position: number | null;
  readonly waiting_in_queue: number | null;
  readonly eta: EtaView | null;
  readonly reason: ReasonView | null;
  readonly simulated: boolean;
};

/** A process that uses a GPU without a lease. `user` is its account, "" where that can not be seen. */
export type ForeignProcess = {
  readonly pid: number;
  readonly user: string;
  readonly since: number;
  readonly used_mib: number | null;
};

/** A gang: how many of its workers run. */
export type GangRow = {
  readonly group: string;
  readonly name: string;
  readonly who: string;
  readonly queue: string;
  readonly workers: number;
  readonly running: number;
  readonly state: string;
  readonly word: string;
  readonly tone: 'mute' | 'wait' | 'run' | 'ok' | 'stop';
  readonly icon: string;
  readonly sentence: string;
};

/** Whether the service lives (`ok`) and is ready, and what it is. */
export type Health = {
  readonly ok: boolean;
  readonly ready: boolean;
  readonly version: string;
  readonly backend: string;
  readonly simulated: boolean;
  readonly rev: number;
  readonly devices_text: string;
  readonly notes: ReadonlyArray<string>;
};

/** Who holds a part of a device. */
export type Holder = {
  readonly namespace: string;
  readonly name: string;
  readonly who: string;
  readonly mine: boolean;
  readonly queue: string;
  readonly milli: number;
  readonly memory_mib: number | null;
  readonly releasing: boolean;
};

/** A change that a lead wants. `queue` is theirs: of the group, of the person, the one that lends or is drained. */
export type LeadAsk = {
  readonly kind?: 'priority' | 'cap' | 'release' | 'ask' | 'lend' | 'drain';
  readonly queue?: string;
  readonly reason?: string;
  readonly group?: string | null;
  readonly person?: string | null;
  readonly gpu?: string | number | null;
  readonly to?: string | null;
  readonly until?: number | null;
  readonly place?: 'first' | 'last' | null;
};

/** A lease that is held. */
export type LeaseRow = {
  readonly group: string;
  readonly name: string;
  readonly who: string;
  readonly queue: string;
  readonly holds: number;
  readonly since: number;
  readonly idle_ms: number | null;
};

/** One line of a pod's output. `seq` is dense a pod, from 0; `at` when the runner read it. */
export type LogLine = {
  readonly seq: number;
  readonly at: number;
  readonly rank: number;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
};

/** `GET /pod-groups/…/logs?rank=&after=&tail=`: lines of all ranks in order of arrival; `next` resumes. */
export type LogPage = {
  readonly lines: ReadonlyArray<LogLine>;
  readonly next: number;
  readonly dropped: number;
  readonly ended: boolean;
  readonly facts: Readonly<Record<string, number>>;
};

/** Something that a person has to look at. `groups` are the keys that its buttons act on. */
export type NeedRow = {
  readonly kind: 'never' | 'idle' | 'late' | 'held_back';
  readonly word: string;
  readonly tone: 'mute' | 'wait' | 'run' | 'ok' | 'stop';
  readonly icon: string;
  readonly title: string;
  readonly text: string;
  readonly queue: string;
  readonly who: ReadonlyArray<string>;
  readonly groups: ReadonlyArray<string>;
};

/** A node and its devices. */
export type NodeView = {
  readonly name: string;
  readonly simulated: boolean;
  readonly milli_cpu: number;
  readonly memory_bytes: number;
  readonly max_pods: number;
  readonly milli_gpu: number;
  readonly allocated_milli_gpu: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly devices: ReadonlyArray<DeviceView>;
  readonly schedulable: boolean;
};

/** Something to tell a person once (granted, refused, evicted, lease ends soon, what a lead did), for toasts. */
export type Notice = {
  readonly at: number;
  readonly kind: 'granted' | 'refused' | 'evicted' | 'ending' | 'failed' | 'finished' | 'idle' | 'lead';
  readonly namespace: string;
  readonly name: string;
  readonly text: string;
  readonly facts: Readonly<Record<string, string | number | null>>;
};

/** Where a request was made, so that the page can show it beside its notebook. */
export type Origin = {
  readonly notebook: string | null;
  readonly kernel_id: string | null;
  readonly cell_id: string | null;
  readonly host: string | null;
};

/** A person in one queue. */
export type PersonRow = {
  readonly who: string;
  readonly queue: string;
  readonly holds: number;
  readonly waits: number;
  readonly since: number | null;
  readonly idle_percent: number | null;
  readonly busy_percent: number | null;
  readonly today_milli_hours: number;
  readonly cap: number | null;
};

/** All groups the caller may see, newest first, at revision `rev`. */
export type PodGroupList = {
  readonly rev: number;
  readonly items: ReadonlyArray<PodGroupView>;
};

/** A pod group as every surface shows it. */
export type PodGroupView = {
  readonly namespace: string;
  readonly name: string;
  readonly owner: string;
  readonly mine: boolean;
  readonly kind: 'lease' | 'gang' | 'kernel' | 'server' | 'batch';
  readonly queue: string;
  readonly request: RequestView;
  readonly workers: number;
  readonly min_members: number;
  readonly priority: number;
  readonly preemptible: boolean;
  readonly state: 'Waiting' | 'Starting' | 'Running' | 'Stopping' | 'Suspended' | 'Succeeded' | 'Failed' | 'Cancelled' | 'Evicted';
  readonly word: string;
  readonly tone: 'mute' | 'wait' | 'run' | 'ok' | 'stop';
  readonly icon: string;
  readonly headline: string;
  readonly detail: string;
  readonly sentence: string;
  readonly rev: number;
  readonly created_at: number;
  readonly reason: ReasonView | null;
  readonly actions: ReadonlyArray<ActionView>;
  readonly position: number | null;
  readonly waiting_in_queue: number | null;
  readonly overall: number | null;
  readonly eta: EtaView | null;
  readonly declared_run_s: number | null;
  readonly expires_at: number | null;
  readonly granted_at: number | null;
  readonly ended_at: number | null;
  readonly ended_by: 'owner' | 'other' | null;
  readonly gpu_seconds: number;
  readonly origin: Origin;
  readonly pods: ReadonlyArray<PodView>;
  readonly failure: FailureView | null;
  readonly results: ReadonlyArray<ResultItem>;
  readonly notes: ReadonlyArray<string>;
  readonly simulated: boolean;
  readonly timeline: ReadonlyArray<TimelineEntry>;
};

/** One pod (worker) of the group. `fits` says whether a waiting one would fit now (a gang starts when all do). */
export type PodView = {
  readonly name: string;
  readonly rank: number;
  readonly state: 'Pending' | 'Gated' | 'Pipelined' | 'Binding' | 'Bound' | 'Running' | 'Releasing' | 'Succeeded' | 'Failed';
  readonly incarnation: string | null;
  readonly node: string | null;
  readonly address: string | null;
  readonly devices: ReadonlyArray<DeviceShare>;
  readonly fits: boolean | null;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  readonly exit_code: number | null;
  readonly signal: string | null;
  readonly reason: ReasonView | null;
  readonly progress: Progress | null;
};

/** A refusal in words: what (`title`), why (`detail`), what to do next (`hint`), and the typed reason behind it. */
export type Problem = {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly hint: string;
  readonly code: string;
  readonly facts: Readonly<Record<string, string | number | null>>;
};

/** A process of the caller that itself holds the lease (`%gpu` on this machine: only the allocation is ours). */
export type Process = {
  readonly pid?: number;
  readonly start_ticks?: number;
  readonly cuda_initialised?: boolean;
};

/** What a worker last said of itself (`kai_jupyter.report(step, total, loss=…)`). */
export type Progress = {
  readonly step: number;
  readonly total: number | null;
  readonly metrics: Readonly<Record<string, number>>;
  readonly at: number;
};

/** A queue in its tree. `sentence` is like "7.75 of 8 GPUs held, 7.5 asked.". */
export type QueueView = {
  readonly name: string;
  readonly parent: string | null;
  readonly depth: number;
  readonly is_leaf: boolean;
  readonly priority: number;
  readonly quota: Amounts;
  readonly limit: Amounts;
  readonly over_quota_weight: number;
  readonly fair_share: Amounts;
  readonly allocated: Amounts;
  readonly requested: Amounts;
  readonly waiting: number;
  readonly running: number;
  readonly may_submit: boolean;
  readonly shows_names: boolean;
  readonly sentence: string;
  readonly waiting_rows: ReadonlyArray<WaitingRow>;
};

/** Why it waits, was refused, moved or evicted. */
export type ReasonView = {
  readonly code: string;
  readonly text: string;
  readonly facts: Readonly<Record<string, string | number | null>>;
};

/** What every pod of the group asks for, parsed. */
export type RequestView = {
  readonly text: string;
  readonly whole: number;
  readonly fraction_milli: number;
  readonly memory_mib: number;
  readonly devices: number;
  readonly cpu_milli: number;
  readonly memory_bytes: number;
  readonly share_mib: number | null;
};

/** A value that came back: its name, a short description and its size in bytes. */
export type ResultItem = {
  readonly name: string;
  readonly text: string;
  readonly size: number;
};

/** One message of the stream. kind "snapshot" replaces all that is known; "update" carries only what changed since. */
export type StreamEvent = {
  readonly kind: 'snapshot' | 'update';
  readonly rev: number;
  readonly now: number;
  readonly groups: ReadonlyArray<PodGroupView>;
  readonly removed: ReadonlyArray<string>;
  readonly queues: ReadonlyArray<QueueView> | null;
  readonly nodes: ReadonlyArray<NodeView> | null;
  readonly notices: ReadonlyArray<Notice>;
};

/** A request for devices. */
export type Submit = {
  readonly kind?: 'lease' | 'gang' | 'kernel' | 'server' | 'batch';
  readonly name?: string | null;
  readonly queue?: string | null;
  readonly gpu?: string | number | null;
  readonly gpu_memory?: string | null;
  readonly devices?: number;
  readonly cpu?: string | number | null;
  readonly memory?: string | null;
  readonly workers?: number;
  readonly min_members?: number | null;
  readonly priority?: number | null;
  readonly preemptible?: boolean | null;
  readonly declared_run_s?: number | null;
  readonly lease_s?: number | null;
  readonly max_wait_s?: number | null;
  readonly grace_s?: number;
  readonly work?: Work | null;
  readonly signature?: string | null;
  readonly process?: Process | null;
  readonly origin?: Origin;
  readonly cluster?: ClusterAsk | null;
};

/** One of the four numbers with its trend. `points`: the line beside it, oldest first. */
export type TeamNumber = {
  readonly id: 'allocated' | 'waiting' | 'wait' | 'idle';
  readonly label: string;
  readonly value: string;
  readonly unit: string;
  readonly trend: 'up' | 'down' | 'level' | 'unknown';
  readonly trend_text: string;
  readonly points: ReadonlyArray<number>;
  readonly points_text: string;
};

/** A queue with its shares. `leads`: the caller may change it. */
export type TeamQueue = {
  readonly name: string;
  readonly parent: string | null;
  readonly depth: number;
  readonly is_leaf: boolean;
  readonly leads: boolean;
  readonly allocated: number;
  readonly quota: number | null;
  readonly fair_share: number;
  readonly requested: number;
  readonly limit: number | null;
  readonly borrowed: number;
  readonly waiting: number;
  readonly sentence: string;
  readonly lent: number;
  readonly drained: boolean;
};

/** Everything on a lead's page, consistent at `rev`. */
export type TeamView = {
  readonly rev: number;
  readonly now: number;
  readonly title: string;
  readonly subtitle: string;
  readonly simulated: boolean;
  readonly user: string;
  readonly led: ReadonlyArray<string>;
  readonly may_change: boolean;
  readonly numbers: ReadonlyArray<TeamNumber>;
  readonly needs: ReadonlyArray<NeedRow>;
  readonly queues: ReadonlyArray<TeamQueue>;
  readonly people: ReadonlyArray<PersonRow>;
  readonly people_count: number;
  readonly waiting: ReadonlyArray<TeamWaiting>;
  readonly leases: ReadonlyArray<LeaseRow>;
  readonly gangs: ReadonlyArray<GangRow>;
  readonly use: UseSeries;
  readonly changes: ReadonlyArray<ChangeView>;
};

/** A request that waits. */
export type TeamWaiting = {
  readonly group: string;
  readonly name: string;
  readonly who: string;
  readonly queue: string;
  readonly position: number;
  readonly asks: number;
  readonly asks_text: string;
  readonly reason: string;
  readonly since: number;
  readonly eta_text: string;
  readonly late: boolean;
  readonly priority: number;
  readonly first: boolean;
  readonly last: boolean;
};

/** Something that happened to the request, for people ("Position 3: two requests ahead started"). */
export type TimelineEntry = {
  readonly at: number;
  readonly text: string;
};

/** Use over the last 24 h, oldest first; a point is the mean of its part of the day. */
export type UseSeries = {
  readonly at: ReadonlyArray<number>;
  readonly allocated: ReadonlyArray<number>;
  readonly requested: ReadonlyArray<number>;
  readonly capacity: number;
};

/** One line of a queue's waiting list. `who` is "you", a name, or "a colleague" where the queue hides names. */
export type WaitingRow = {
  readonly namespace: string;
  readonly name: string;
  readonly who: string;
  readonly mine: boolean;
  readonly position: number;
  readonly request_text: string;
  readonly eta_text: string;
};

/** What a change would do at once, by the planner. Nothing was changed. */
export type WhatIfView = {
  readonly headline: string;
  readonly detail: string;
  readonly queues: ReadonlyArray<BeforeAfter>;
  readonly gains: ReadonlyArray<string>;
  readonly pays: ReadonlyArray<string>;
  readonly risk: string;
  readonly text: string;
};

/** What each pod runs. Signed as a whole by its owner; the runner refuses what is unsigned. */
export type Work = {
  readonly command?: ReadonlyArray<string>;
  readonly payload_sha256?: string | null;
  readonly workdir?: string | null;
  readonly env?: Readonly<Record<string, string>>;
  readonly python?: string | null;
};

/** What the guard knows of each type: a word, another type, `list`, `map`, `words`, `any`. */
export type Shape =
  | 'string'
  | 'number'
  | 'boolean'
  | 'null'
  | { readonly is: string }
  | { readonly list: Shape }
  | { readonly map: Shape }
  | { readonly words: ReadonlyArray<string> }
  | { readonly any: ReadonlyArray<Shape> };

export const SHAPES: Readonly<Record<string, Readonly<Record<string, Shape>>>> = {
  ActionView: { id: { words: ['cancel', 'release', 'extend', 'why', 'ask_again', 'smaller', 'switch_queue', 'restart_kernel', 'logs', 'result'] }, label: 'string', eta_text: { any: ['string', 'null'] }, submit: { any: [{ is: 'Submit' }, 'null'] }, code: { any: ['string', 'null'] } },
  Amounts: { milli_gpu: { any: ['number', 'null'] }, milli_cpu: { any: ['number', 'null'] }, memory_bytes: { any: ['number', 'null'] } },
  BeforeAfter: { queue: 'string', before_milli: 'number', after_milli: 'number', delta_text: 'string' },
  Cancel: { grace_s: { any: ['number', 'null'] }, reason: 'string' },
  ChangeView: { id: 'number', kind: { words: ['priority', 'cap', 'release', 'ask', 'lend', 'drain'] }, queue: 'string', text: 'string', reason: 'string', by: 'string', at: 'number', until: { any: ['number', 'null'] }, ended_at: { any: ['number', 'null'] }, ended_by: 'string', ended_why: 'string', in_force: 'boolean', may_undo: 'boolean' },
  ClusterAsk: { namespace: { any: ['string', 'null'] }, image: { any: ['string', 'null'] }, profile: { any: ['string', 'null'] }, folder: { any: ['string', 'null'] }, workload: { any: [{ words: ['PyTorchJob', 'TrainJob', 'RayJob'] }, 'null'] } },
  DeviceShare: { id: 'string', index: 'number', model: 'string', memory_mib: { any: ['number', 'null'] }, milli: 'number', share_mib: { any: ['number', 'null'] }, simulated: 'boolean' },
  DeviceView: { id: 'string', index: 'number', model: 'string', memory_mib: { any: ['number', 'null'] }, simulated: 'boolean', allocated_milli: 'number', holders: { list: { is: 'Holder' } }, foreign_pids: { list: 'number' }, used_mib: { any: ['number', 'null'] }, busy_percent: { any: ['number', 'null'] }, foreign: { list: { is: 'ForeignProcess' } } },
  EtaView: { earliest_at: { any: ['number', 'null'] }, likely_at: { any: ['number', 'null'] }, latest_at: { any: ['number', 'null'] }, basis: { words: ['now', 'declared', 'observed', 'mixed', 'unknown'] }, text: 'string' },
  ExplainItem: { title: 'string', text: 'string', action: { any: [{ is: 'ActionView' }, 'null'] } },
  ExplainView: { namespace: 'string', name: 'string', headline: 'string', position: { any: ['number', 'null'] }, waiting_in_queue: { any: ['number', 'null'] }, overall: { any: ['number', 'null'] }, eta: { any: [{ is: 'EtaView' }, 'null'] }, reasons: { list: { is: 'ReasonView' } }, items: { list: { is: 'ExplainItem' } }, would_help: { list: { is: 'ActionView' } } },
  Extend: { by_s: { any: ['number', 'null'] } },
  FailureView: { rank: 'number', at: 'number', message: 'string', traceback: 'string', cell_line: { any: ['number', 'null'] }, source: { any: ['string', 'null'] } },
  ForecastView: { verdict: { words: ['now', 'about', 'unknown', 'never'] }, text: 'string', queue: 'string', request: { is: 'RequestView' }, workers: 'number', position: { any: ['number', 'null'] }, waiting_in_queue: { any: ['number', 'null'] }, eta: { any: [{ is: 'EtaView' }, 'null'] }, reason: { any: [{ is: 'ReasonView' }, 'null'] }, simulated: 'boolean' },
  ForeignProcess: { pid: 'number', user: 'string', since: 'number', used_mib: { any: ['number', 'null'] } },
  GangRow: { group: 'string', name: 'string', who: 'string', queue: 'string', workers: 'number', running: 'number', state: 'string', word: 'string', tone: { words: ['mute', 'wait', 'run', 'ok', 'stop'] }, icon: 'string', sentence: 'string' },
  Health: { ok: 'boolean', ready: 'boolean', version: 'string', backend: 'string', simulated: 'boolean', rev: 'number', devices_text: 'string', notes: { list: 'string' } },
  Holder: { namespace: 'string', name: 'string', who: 'string', mine: 'boolean', queue: 'string', milli: 'number', memory_mib: { any: ['number', 'null'] }, releasing: 'boolean' },
  LeadAsk: { kind: { words: ['priority', 'cap', 'release', 'ask', 'lend', 'drain'] }, queue: 'string', reason: 'string', group: { any: ['string', 'null'] }, person: { any: ['string', 'null'] }, gpu: { any: ['string', 'number', 'null'] }, to: { any: ['string', 'null'] }, until: { any: ['number', 'null'] }, place: { any: [{ words: ['first', 'last'] }, 'null'] } },
  LeaseRow: { group: 'string', name: 'string', who: 'string', queue: 'string', holds: 'number', since: 'number', idle_ms: { any: ['number', 'null'] } },
  LogLine: { seq: 'number', at: 'number', rank: 'number', stream: { words: ['stdout', 'stderr'] }, text: 'string' },
  LogPage: { lines: { list: { is: 'LogLine' } }, next: 'number', dropped: 'number', ended: 'boolean', facts: { map: 'number' } },
  NeedRow: { kind: { words: ['never', 'idle', 'late', 'held_back'] }, word: 'string', tone: { words: ['mute', 'wait', 'run', 'ok', 'stop'] }, icon: 'string', title: 'string', text: 'string', queue: 'string', who: { list: 'string' }, groups: { list: 'string' } },
  NodeView: { name: 'string', simulated: 'boolean', milli_cpu: 'number', memory_bytes: 'number', max_pods: 'number', milli_gpu: 'number', allocated_milli_gpu: 'number', labels: { map: 'string' }, devices: { list: { is: 'DeviceView' } }, schedulable: 'boolean' },
  Notice: { at: 'number', kind: { words: ['granted', 'refused', 'evicted', 'ending', 'failed', 'finished', 'idle', 'lead'] }, namespace: 'string', name: 'string', text: 'string', facts: { map: { any: ['string', 'number', 'null'] } } },
  Origin: { notebook: { any: ['string', 'null'] }, kernel_id: { any: ['string', 'null'] }, cell_id: { any: ['string', 'null'] }, host: { any: ['string', 'null'] } },
  PersonRow: { who: 'string', queue: 'string', holds: 'number', waits: 'number', since: { any: ['number', 'null'] }, idle_percent: { any: ['number', 'null'] }, busy_percent: { any: ['number', 'null'] }, today_milli_hours: 'number', cap: { any: ['number', 'null'] } },
  PodGroupList: { rev: 'number', items: { list: { is: 'PodGroupView' } } },
  PodGroupView: { namespace: 'string', name: 'string', owner: 'string', mine: 'boolean', kind: { words: ['lease', 'gang', 'kernel', 'server', 'batch'] }, queue: 'string', request: { is: 'RequestView' }, workers: 'number', min_members: 'number', priority: 'number', preemptible: 'boolean', state: { words: ['Waiting', 'Starting', 'Running', 'Stopping', 'Suspended', 'Succeeded', 'Failed', 'Cancelled', 'Evicted'] }, word: 'string', tone: { words: ['mute', 'wait', 'run', 'ok', 'stop'] }, icon: 'string', headline: 'string', detail: 'string', sentence: 'string', rev: 'number', created_at: 'number', reason: { any: [{ is: 'ReasonView' }, 'null'] }, actions: { list: { is: 'ActionView' } }, position: { any: ['number', 'null'] }, waiting_in_queue: { any: ['number', 'null'] }, overall: { any: ['number', 'null'] }, eta: { any: [{ is: 'EtaView' }, 'null'] }, declared_run_s: { any: ['number', 'null'] }, expires_at: { any: ['number', 'null'] }, granted_at: { any: ['number', 'null'] }, ended_at: { any: ['number', 'null'] }, ended_by: { any: [{ words: ['owner', 'other'] }, 'null'] }, gpu_seconds: 'number', origin: { is: 'Origin' }, pods: { list: { is: 'PodView' } }, failure: { any: [{ is: 'FailureView' }, 'null'] }, results: { list: { is: 'ResultItem' } }, notes: { list: 'string' }, simulated: 'boolean', timeline: { list: { is: 'TimelineEntry' } } },
  PodView: { name: 'string', rank: 'number', state: { words: ['Pending', 'Gated', 'Pipelined', 'Binding', 'Bound', 'Running', 'Releasing', 'Succeeded', 'Failed'] }, incarnation: { any: ['string', 'null'] }, node: { any: ['string', 'null'] }, address: { any: ['string', 'null'] }, devices: { list: { is: 'DeviceShare' } }, fits: { any: ['boolean', 'null'] }, started_at: { any: ['number', 'null'] }, ended_at: { any: ['number', 'null'] }, exit_code: { any: ['number', 'null'] }, signal: { any: ['string', 'null'] }, reason: { any: [{ is: 'ReasonView' }, 'null'] }, progress: { any: [{ is: 'Progress' }, 'null'] } },
  Problem: { type: 'string', title: 'string', status: 'number', detail: 'string', hint: 'string', code: 'string', facts: { map: { any: ['string', 'number', 'null'] } } },
  Process: { pid: 'number', start_ticks: 'number', cuda_initialised: 'boolean' },
  Progress: { step: 'number', total: { any: ['number', 'null'] }, metrics: { map: 'number' }, at: 'number' },
  QueueView: { name: 'string', parent: { any: ['string', 'null'] }, depth: 'number', is_leaf: 'boolean', priority: 'number', quota: { is: 'Amounts' }, limit: { is: 'Amounts' }, over_quota_weight: 'number', fair_share: { is: 'Amounts' }, allocated: { is: 'Amounts' }, requested: { is: 'Amounts' }, waiting: 'number', running: 'number', may_submit: 'boolean', shows_names: 'boolean', sentence: 'string', waiting_rows: { list: { is: 'WaitingRow' } } },
  ReasonView: { code: 'string', text: 'string', facts: { map: { any: ['string', 'number', 'null'] } } },
  RequestView: { text: 'string', whole: 'number', fraction_milli: 'number', memory_mib: 'number', devices: 'number', cpu_milli: 'number', memory_bytes: 'number', share_mib: { any: ['number', 'null'] } },
  ResultItem: { name: 'string', text: 'string', size: 'number' },
  StreamEvent: { kind: { words: ['snapshot', 'update'] }, rev: 'number', now: 'number', groups: { list: { is: 'PodGroupView' } }, removed: { list: 'string' }, queues: { any: [{ list: { is: 'QueueView' } }, 'null'] }, nodes: { any: [{ list: { is: 'NodeView' } }, 'null'] }, notices: { list: { is: 'Notice' } } },
  Submit: { kind: { words: ['lease', 'gang', 'kernel', 'server', 'batch'] }, name: { any: ['string', 'null'] }, queue: { any: ['string', 'null'] }, gpu: { any: ['string', 'number', 'null'] }, gpu_memory: { any: ['string', 'null'] }, devices: 'number', cpu: { any: ['string', 'number', 'null'] }, memory: { any: ['string', 'null'] }, workers: 'number', min_members: { any: ['number', 'null'] }, priority: { any: ['number', 'null'] }, preemptible: { any: ['boolean', 'null'] }, declared_run_s: { any: ['number', 'null'] }, lease_s: { any: ['number', 'null'] }, max_wait_s: { any: ['number', 'null'] }, grace_s: 'number', work: { any: [{ is: 'Work' }, 'null'] }, signature: { any: ['string', 'null'] }, process: { any: [{ is: 'Process' }, 'null'] }, origin: { is: 'Origin' }, cluster: { any: [{ is: 'ClusterAsk' }, 'null'] } },
  TeamNumber: { id: { words: ['allocated', 'waiting', 'wait', 'idle'] }, label: 'string', value: 'string', unit: 'string', trend: { words: ['up', 'down', 'level', 'unknown'] }, trend_text: 'string', points: { list: 'number' }, points_text: 'string' },
  TeamQueue: { name: 'string', parent: { any: ['string', 'null'] }, depth: 'number', is_leaf: 'boolean', leads: 'boolean', allocated: 'number', quota: { any: ['number', 'null'] }, fair_share: 'number', requested: 'number', limit: { any: ['number', 'null'] }, borrowed: 'number', waiting: 'number', sentence: 'string', lent: 'number', drained: 'boolean' },
  TeamView: { rev: 'number', now: 'number', title: 'string', subtitle: 'string', simulated: 'boolean', user: 'string', led: { list: 'string' }, may_change: 'boolean', numbers: { list: { is: 'TeamNumber' } }, needs: { list: { is: 'NeedRow' } }, queues: { list: { is: 'TeamQueue' } }, people: { list: { is: 'PersonRow' } }, people_count: 'number', waiting: { list: { is: 'TeamWaiting' } }, leases: { list: { is: 'LeaseRow' } }, gangs: { list: { is: 'GangRow' } }, use: { is: 'UseSeries' }, changes: { list: { is: 'ChangeView' } } },
  TeamWaiting: { group: 'string', name: 'string', who: 'string', queue: 'string', position: 'number', asks: 'number', asks_text: 'string', reason: 'string', since: 'number', eta_text: 'string', late: 'boolean', priority: 'number', first: 'boolean', last: 'boolean' },
  TimelineEntry: { at: 'number', text: 'string' },
  UseSeries: { at: { list: 'number' }, allocated: { list: 'number' }, requested: { list: 'number' }, capacity: 'number' },
  WaitingRow: { namespace: 'string', name: 'string', who: 'string', mine: 'boolean', position: 'number', request_text: 'string', eta_text: 'string' },
  WhatIfView: { headline: 'string', detail: 'string', queues: { list: { is: 'BeforeAfter' } }, gains: { list: 'string' }, pays: { list: 'string' }, risk: 'string', text: 'string' },
  Work: { command: { list: 'string' }, payload_sha256: { any: ['string', 'null'] }, workdir: { any: ['string', 'null'] }, env: { map: 'string' }, python: { any: ['string', 'null'] } }
};
