/**
 * A page gives up after some tries to reach a kernel that waits in the queue (browsers and proxies end a socket that
 * opens for minutes). The cells that were run are still kept in the page: it reaches out again when the GPU is there.
 */

import type { PodGroupView } from '../api/schema';

/** The part of a kernel connection that is used. */
export interface IReachable {
  readonly connectionStatus: string;
  reconnect(): Promise<void>;
}

export class Reconnects {
  private readonly _tried = new WeakMap<IReachable, string>();

  /** Reach out again once the kernel's wait is over; once for each end of a wait. */
  look(kernel: IReachable | null, group: PodGroupView | null): void {
    if (kernel === null || group === null || !isDecided(group)) {
      return;
    }
    const decided = `${group.name} ${group.state}`;
    if (kernel.connectionStatus === 'disconnected' && this._tried.get(kernel) !== decided) {
      this._tried.set(kernel, decided);
      void kernel.reconnect().catch(() => undefined); // JupyterLab shows a kernel that can not be reached
    }
  }
}

/** Whether the kernel starts or runs: its GPU is granted, or its person wanted none. */
function isDecided(group: PodGroupView): boolean {
  const isOnCpu = group.state === 'Cancelled' && group.ended_by === 'owner';
  return group.kind === 'kernel' && (group.state === 'Running' || isOnCpu);
}
