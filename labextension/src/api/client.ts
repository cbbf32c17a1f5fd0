/** The calls of the page: the server extension's paths under `kai/`, each answer guarded, each failure one sentence. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { type Guarded, guarded, isA } from './guard';
import type {
  Cancel,
  ExplainView,
  Extend,
  ForecastView,
  LogPage,
  PodGroupView,
  Problem,
  Submit
} from './schema';

/** A request that was not served, in the service's words. */
export class Refused extends Error {
  constructor(
    readonly problem: Problem,
    readonly status: number
  ) {
    super([problem.detail || problem.title, problem.hint].filter(Boolean).join(' '));
    this.name = 'Refused';
  }
}

/** Which group. */
export type GroupId = { readonly namespace: string; readonly name: string };

/** What is asked of a forecast. */
export type Wish = { readonly gpu: string; readonly queue?: string; readonly workers?: number };

/** The server extension as this page sees it. */
export interface IKaiApi {
  streamUrl(): string;
  openSocket(url: string): WebSocket;
  submit(wanted: Submit, key: string): Promise<PodGroupView>;
  cancel(id: GroupId, wanted?: Cancel): Promise<PodGroupView>;
  extend(id: GroupId, wanted: Extend): Promise<PodGroupView>;
  explain(id: GroupId): Promise<ExplainView>;
  forecast(wish: Wish): Promise<ForecastView>;
  logs(id: GroupId, after: number, wait_s: number, signal: AbortSignal): Promise<LogPage>;
  /** Start a GPU kernel with what a kernel holds; gives the new kernel's id. */
  moveKernel(kernelId: string, kernelName: string): Promise<string>;
}

type Sent = { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal };

/** The API over JupyterLab's own connection settings (token, XSRF, base URL, hub). */
export class KaiApi implements IKaiApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  streamUrl(): string {
    const { wsUrl, token, appendToken } = this._settings;
    const url = URLExt.join(wsUrl, 'kai', 'stream');
    return appendToken && token ? `${url}?token=${encodeURIComponent(token)}` : url;
  }

  openSocket(url: string): WebSocket {
    return new this._settings.WebSocket(url);
  }

  async submit(wanted: Submit, key: string): Promise<PodGroupView> {
    return this._call('PodGroupView', 'pod-groups', {
      body: wanted,
      headers: { 'Idempotency-Key': key }
    });
  }

  async cancel(id: GroupId, wanted: Cancel = {}): Promise<PodGroupView> {
    return this._call('PodGroupView', `${groupPath(id)}/cancel`, { body: wanted });
  }

  async extend(id: GroupId, wanted: Extend): Promise<PodGroupView> {
    return this._call('PodGroupView', `${groupPath(id)}/extend`, { body: wanted });
  }

  async explain(id: GroupId): Promise<ExplainView> {
    return this._call('ExplainView', `${groupPath(id)}/explain`, {});
  }

  async forecast(wish: Wish): Promise<ForecastView> {
    const query = new URLSearchParams({ gpu: wish.gpu, kind: 'lease' });
    if (wish.queue) {
      query.set('queue', wish.queue);
    }
    if (wish.workers) {
      query.set('workers', String(wish.workers));
    }
    return this._call('ForecastView', `forecast?${query}`, {});
  }

  async logs(id: GroupId, after: number, wait_s: number, signal: AbortSignal): Promise<LogPage> {
    const query = after > 0 ? `after=${after}` : 'tail=1000';
    return this._call('LogPage', `${groupPath(id)}/logs?${query}&wait_s=${wait_s}`, { signal });
  }

  async moveKernel(kernelId: string, kernelName: string): Promise<string> {
    const path = `kernels/${encodeURIComponent(kernelId)}/move`;
    const data = await this._send(path, { body: { kernel_name: kernelName } });
    return String((data as { kernel_id?: unknown } | null)?.kernel_id ?? '');
  }

  private async _call<N extends keyof Guarded>(
    name: N,
    path: string,
    more: Sent
  ): Promise<Guarded[N]> {
    return guarded(name, await this._send(path, more));
  }

  private async _send(path: string, more: Sent): Promise<unknown> {
    // "no-cache" keeps JupyterLab from adding a time stamp to the query, which the service would not understand.
    const init: RequestInit =
      more.body === undefined
        ? { method: 'GET', cache: 'no-cache' }
        : {
            method: 'POST',
            body: JSON.stringify(more.body),
            headers: { 'Content-Type': 'application/json', ...more.headers }
          };
    if (more.signal) {
      init.signal = more.signal;
    }
    const url = `${this._settings.baseUrl}kai/${path}`;
    const response = await ServerConnection.makeRequest(url, init, this._settings);
    const data: unknown = await response.json().catch(() => null);
    if (!response.ok) {
      throw new Refused(problemOf(data, response), response.status);
    }
    return data;
  }
}

function groupPath(id: GroupId): string {
  return `pod-groups/${encodeURIComponent(id.namespace)}/${encodeURIComponent(id.name)}`;
}

/** A sentence even where the answer has none (a proxy's error page). */
function problemOf(data: unknown, response: Response): Problem {
  if (isA('Problem', data)) {
    return data;
  }
  return {
    type: 'about:blank',
    title: response.statusText,
    status: response.status,
    detail: `The GPU service did not answer (${response.status} ${response.statusText}).`,
    hint: 'Run `jupyter kai doctor` in a terminal.',
    code: 'no_answer',
    facts: {}
  };
}
