/** Following the log of a group: one request at a time, each resumes where the last ended. */

import type { LogPage } from '../api/schema';

/** Fetches the lines after `after`; waits up to `wait_s` for the next ones. */
export type LogSource = (after: number, wait_s: number, signal: AbortSignal) => Promise<LogPage>;

const WAIT_S = 20;
const PAUSE_MS = 3000;

/** Feed `push` until the log has ended or `signal` aborts. A failed request is tried again after a pause. */
export async function followLogs(
  source: LogSource,
  push: (page: LogPage) => void,
  signal: AbortSignal,
  pause: (signal: AbortSignal) => Promise<void> = pauseBetween
): Promise<void> {
  let after = 0;
  while (!signal.aborted) {
    try {
      const page = await source(after, after > 0 ? WAIT_S : 0, signal);
      if (signal.aborted) {
        return;
      }
      push(page);
      after = page.next;
      if (page.ended) {
        return;
      }
      if (page.lines.length === 0 && after === 0) {
        await pause(signal);
      }
    } catch {
      await pause(signal);
    }
  }
}

async function pauseBetween(signal: AbortSignal): Promise<void> {
  await new Promise<void>(resolve => {
    const id = setTimeout(resolve, PAUSE_MS);
    signal.addEventListener('abort', () => {
      clearTimeout(id);
      resolve();
    });
  });
}
