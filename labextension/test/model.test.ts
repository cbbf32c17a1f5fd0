import { describe, expect, it } from 'vitest';
import type { IKaiApi } from '../src/api/client';
import { GpuModel, type ITime } from '../src/model/model';
import { event, granted, group, NOW } from './fixtures';

class FakeSocket {
  readyState = 1;
  sent: unknown[] = [];
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }
  close(): void {
    this.readyState = 3;
    this.onclose?.();
  }
  say(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

/** A clock that moves only when told. */
class ManualTime implements ITime {
  private _now = NOW;
  private _waiting: { at: number; then: () => void }[] = [];
  now(): number {
    return this._now;
  }
  random(): number {
    return 0.5;
  }
  after(ms: number, then: () => void): () => void {
    const entry = { at: this._now + ms, then };
    this._waiting.push(entry);
    return () => {
      this._waiting = this._waiting.filter(item => item !== entry);
    };
  }
  pass(ms: number): void {
    const end = this._now + ms;
    for (;;) {
      const due = this._waiting.filter(item => item.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) {
        break;
      }
      this._waiting = this._waiting.filter(item => item !== due);
      this._now = due.at;
      due.then();
    }
    this._now = end;
  }
}

function started(): {
  model: GpuModel;
  sockets: FakeSocket[];
  time: ManualTime;
  last: () => FakeSocket;
} {
  const sockets: FakeSocket[] = [];
  const time = new ManualTime();
  const api = {
    streamUrl: () => 'ws://here/kai/stream',
    openSocket: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    }
  } as unknown as IKaiApi;
  const model = new GpuModel(api, time);
  const last = (): FakeSocket => sockets[sockets.length - 1] as FakeSocket;
  return { model, sockets, time, last };
}

describe('the model', () => {
  it('has one socket, and is live with the first message', () => {
    const { model, sockets, last } = started();
    expect(model.connection.kind).toBe('connecting');
    last().say(event({ kind: 'snapshot', groups: [group()], queues: [], nodes: [] }));
    expect(sockets).toHaveLength(1);
    expect(model.connection.kind).toBe('live');
    expect(model.state.groups.size).toBe(1);
  });

  it("counts on the service's clock", () => {
    const { model, last, time } = started();
    last().say(event({ kind: 'snapshot', now: NOW + 5000 }));
    time.pass(2000);
    expect(model.now).toBe(NOW + 7000);
  });

  it('keeps what it knew while offline, says how old it is, and backs off', () => {
    const { model, sockets, time, last } = started();
    last().say(event({ kind: 'snapshot', groups: [group()] }));
    last().close();
    expect(model.connection.kind).toBe('offline');
    expect(model.state.groups.size).toBe(1);
    time.pass(500);
    expect(sockets).toHaveLength(2);
    last().close();
    time.pass(500);
    expect(sockets).toHaveLength(2);
    time.pass(500);
    expect(sockets).toHaveLength(3);
    expect(model.age_s).toBe(2);
  });

  it('believes the server extension when it says that the service is away', () => {
    const { model, last } = started();
    last().say(event({ kind: 'snapshot' }));
    last().say({
      kind: 'offline',
      now: NOW,
      since: NOW,
      text: 'It may be restarting.',
      retry_s: 8
    });
    expect(model.connection).toMatchObject({ kind: 'offline', text: 'It may be restarting.' });
    expect(model.retry_s).toBe(8);
    model.retry();
    expect(last().sent).toEqual([{ kind: 'retry' }]);
    last().say(event({ rev: 5 }));
    expect(model.connection.kind).toBe('live');
  });

  it('takes a silent connection for lost, but a heartbeat for life', () => {
    const { model, time, last } = started();
    last().say(event({ kind: 'snapshot' }));
    time.pass(40_000);
    last().say({ kind: 'beat', now: NOW });
    time.pass(40_000);
    expect(model.connection.kind).toBe('live');
    time.pass(10_000);
    expect(model.connection.kind).toBe('offline');
  });

  it('asks for silence while hidden and for news when shown again', () => {
    const { model, last } = started();
    last().say(event({ kind: 'snapshot', rev: 4 }));
    model.pause();
    model.resume();
    model.resume();
    expect(last().sent).toEqual([{ kind: 'pause' }, { kind: 'resume', since: 4 }]);
  });

  it('tells transitions and notices once', () => {
    const { model, last } = started();
    const told: string[] = [];
    model.transition.connect((_, { after }) => told.push(after.state));
    model.noticed.connect((_, notice) => told.push(notice.text));
    last().say(event({ kind: 'snapshot', groups: [group()] }));
    const notice = {
      at: NOW,
      kind: 'granted' as const,
      namespace: 'ana',
      name: 'lease',
      text: 'Granted',
      facts: {}
    };
    last().say(event({ rev: 2, groups: [granted()], notices: [notice] }));
    last().say(event({ rev: 3, groups: [granted({ rev: 3 })] }));
    expect(told).toEqual(['Running', 'Granted']);
  });

  it('takes an answer over without pretending that the stream lives', () => {
    const { model, last } = started();
    last().say(event({ kind: 'snapshot', groups: [group()] }));
    last().close();
    model.take(granted());
    expect(model.state.groups.get('ana/lease')?.state).toBe('Running');
    expect(model.connection.kind).toBe('offline');
  });

  it('stops everything when disposed', () => {
    const { model, sockets, time, last } = started();
    last().say(event({ kind: 'snapshot' }));
    model.dispose();
    time.pass(120_000);
    expect(sockets).toHaveLength(1);
    expect(last().readyState).toBe(3);
  });

  it('ignores what it can not read', () => {
    const { model, last } = started();
    last().onmessage?.({ data: 'not json' });
    last().say({ kind: 'snapshot' });
    expect(model.state.loaded).toBe(false);
  });
});
