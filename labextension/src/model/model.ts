/**
 * The one model of the page: one socket, one state, one clock; every view reads it.
 *
 * Rule: no DOM here. What the browser knows (hidden page) is told through `pause` and `resume`.
 */

import { ISignal, Signal } from '@lumino/signaling';
import type { IKaiApi } from '../api/client';
import { isA } from '../api/guard';
import type { Notice, PodGroupView, StreamEvent } from '../api/schema';
import type { Connection, IGpuModel } from '../tokens';
import { type KaiState, next, NOTHING_KNOWN, type Transition } from './state';

/** Silence after which the connection counts as lost; the server speaks at least every 20 s. */
const SILENCE_MS = 45_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 30_000;
const TICK_MS = 1000;

/** The time and the timers, so that tests hold them in hand. */
export interface ITime {
  now(): number;
  after(ms: number, then: () => void): () => void;
  random(): number;
}

export const realTime: ITime = {
  now: () => Date.now(),
  after: (ms, then) => {
    const id = setTimeout(then, ms);
    return () => clearTimeout(id);
  },
  random: () => Math.random()
};

export class GpuModel implements IGpuModel {
  private _state: KaiState = NOTHING_KNOWN;
  private _socket: WebSocket | null = null;
  private _connection: Connection = { kind: 'connecting' };
  private _tries = 0;
  private _skew = 0;
  private _heardAt = 0;
  private _spokeAt = 0;
  private _paused = false;
  private _disposed = false;
  private _stopRetry: (() => void) | null = null;
  private _stopTick: (() => void) | null = null;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _ticked = new Signal<this, void>(this);
  private readonly _transition = new Signal<this, Transition>(this);
  private readonly _noticed = new Signal<this, Notice>(this);

  constructor(
    readonly api: IKaiApi,
    private readonly _time: ITime = realTime
  ) {
    this._connect();
    this._tick();
  }

  get state(): KaiState {
    return this._state;
  }

  get connection(): Connection {
    return this._connection;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get ticked(): ISignal<this, void> {
    return this._ticked;
  }

  get transition(): ISignal<this, Transition> {
    return this._transition;
  }

  get noticed(): ISignal<this, Notice> {
    return this._noticed;
  }

  get now(): number {
    return this._time.now() + this._skew;
  }

  /** Seconds since the service was last heard. */
  get age_s(): number {
    return this._heardAt === 0 ? 0 : Math.round((this._time.now() - this._heardAt) / 1000);
  }

  /** Seconds until the next try, while not connected. */
  get retry_s(): number | null {
    return this._connection.kind === 'offline'
      ? Math.max(0, Math.round((this._connection.retryAt - this._time.now()) / 1000))
      : null;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    this._stopRetry?.();
    this._stopTick?.();
    this._socket?.close();
    Signal.clearData(this);
  }

  retry(): void {
    this._tries = 0;
    if (this._socket !== null) {
      this._send({ kind: 'retry' });
      return;
    }
    this._stopRetry?.();
    this._connect();
  }

  pause(): void {
    this._paused = true;
    this._stopTick?.();
    this._send({ kind: 'pause' });
  }

  resume(): void {
    if (!this._paused) {
      return;
    }
    this._paused = false;
    this._spokeAt = this._time.now();
    this._send({ kind: 'resume', since: this._state.rev });
    if (this._socket === null) {
      this.retry();
    }
    this._tick();
  }

  take(group: PodGroupView): void {
    const rev = Math.max(group.rev, this._state.rev);
    this._apply({
      kind: 'update',
      rev,
      now: this.now,
      groups: [group],
      removed: [],
      queues: null,
      nodes: null,
      notices: []
    });
  }

  private _send(message: unknown): void {
    if (this._socket?.readyState === 1) {
      this._socket.send(JSON.stringify(message));
    }
  }

  private _connect(): void {
    const socket = this.api.openSocket(this.api.streamUrl());
    this._socket = socket;
    socket.onmessage = event => this._receive(parsed(event.data));
    socket.onclose = () => this._lost(socket);
  }

  private _receive(data: unknown): void {
    const now = this._time.now();
    this._spokeAt = now;
    this._tries = 0;
    if (isOffline(data)) {
      this._away(data.text, now + data.retry_s * 1000);
      return;
    }
    if (this._connection.kind === 'live') {
      this._heardAt = now; // a heartbeat of a live connection says: nothing changed
    }
    if (isA('StreamEvent', data)) {
      this._heardAt = now;
      this._skew = data.now - now;
      this._connection = { kind: 'live' };
      this._apply(data);
    }
  }

  private _away(text: string, retryAt: number): void {
    this._connection = { kind: 'offline', retryAt, text };
    this._changed.emit();
  }

  private _apply(event: StreamEvent): void {
    const { state, transitions, notices } = next(this._state, event);
    this._state = state;
    this._changed.emit();
    transitions.forEach(transition => this._transition.emit(transition));
    notices.forEach(notice => this._noticed.emit(notice));
  }

  private _lost(socket: WebSocket): void {
    if (this._disposed || socket !== this._socket) {
      return;
    }
    this._socket = null;
    const wait =
      Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this._tries) * (0.75 + this._time.random() / 2);
    this._tries += 1;
    this._stopRetry = this._time.after(wait, () => this._connect());
    this._away('', this._time.now() + wait);
  }

  /** One timer for everything that counts: ages, countdowns, the silence of a dead connection. */
  private _tick(): void {
    this._stopTick?.();
    this._stopTick = this._time.after(TICK_MS, () => {
      const socket = this._socket;
      if (socket !== null && this._spokeAt > 0 && this._time.now() - this._spokeAt > SILENCE_MS) {
        this._lost(socket);
        socket.close();
      }
      this._ticked.emit();
      if (!this._disposed && !this._paused) {
        this._tick();
      }
    });
  }
}

type Offline = { readonly kind: 'offline'; readonly text: string; readonly retry_s: number };

/** The server extension lives, but the service behind it does not answer. */
function isOffline(data: unknown): data is Offline {
  const told = data as Partial<Offline> | null;
  return (
    told?.kind === 'offline' && typeof told.text === 'string' && typeof told.retry_s === 'number'
  );
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return null;
  }
}
