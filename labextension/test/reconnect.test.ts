import { describe, expect, it } from 'vitest';
import { Reconnects } from '../src/view/reconnect';
import { granted, group } from './fixtures';

function kernelThatIs(connectionStatus: string) {
  return {
    connectionStatus,
    tries: 0,
    async reconnect() {
      this.tries += 1;
      throw new Error('not yet');
    }
  };
}

describe('a kernel that waited longer than the page tried to reach it', () => {
  it('is reached out to when its GPU is there, once', () => {
    const kernel = kernelThatIs('disconnected');
    const reconnects = new Reconnects();
    reconnects.look(kernel, group({ kind: 'kernel' }));
    expect(kernel.tries).toBe(0);
    reconnects.look(kernel, granted({ kind: 'kernel' }));
    reconnects.look(kernel, granted({ kind: 'kernel' }));
    expect(kernel.tries).toBe(1);
  });

  it('is reached out to when it starts on the CPU, not when somebody else took its place', () => {
    const kernel = kernelThatIs('disconnected');
    const reconnects = new Reconnects();
    reconnects.look(kernel, group({ kind: 'kernel', state: 'Cancelled', ended_by: 'other' }));
    expect(kernel.tries).toBe(0);
    reconnects.look(kernel, group({ kind: 'kernel', state: 'Cancelled', ended_by: 'owner' }));
    expect(kernel.tries).toBe(1);
  });

  it('is left alone while it is connected, and where there is none', () => {
    const kernel = kernelThatIs('connected');
    new Reconnects().look(kernel, granted({ kind: 'kernel' }));
    new Reconnects().look(null, granted({ kind: 'kernel' }));
    expect(kernel.tries).toBe(0);
  });
});
