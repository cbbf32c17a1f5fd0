/**
 * The widget's way past a busy kernel: the page's own server, found in the page itself, and the page's news.
 *
 * Rule: no JupyterLab here; where there is no Jupyter server behind the page (VS Code, Colab), `Page.of` answers null.
 */

import { type Guarded, guarded, isA } from '../api/guard';
import { freshKey } from '../api/key';
import type { ExplainView, LogPage, NodeView, PodGroupView, Submit } from '../api/schema';

/** What the page's model says. */
export type News = {
  readonly groups: ReadonlyArray<PodGroupView>;
  readonly nodes: ReadonlyArray<NodeView>;
  readonly now: number;
  readonly connected: boolean;
  readonly age_s: number;
  readonly retry_s: number | null;
};

type PageConfig = { readonly baseUrl: string; readonly token: string };

export class Page {
  private constructor(private readonly _config: PageConfig) {}

  static of(page: Document): Page | null {
    try {
      const text = page.getElementById('jupyter-config-data')?.textContent ?? '';
      const config = JSON.parse(text) as Partial<PageConfig>;
      return typeof config.baseUrl === 'string'
        ? new Page({ baseUrl: config.baseUrl, token: config.token ?? '' })
        : null;
    } catch {
      return null;
    }
  }

  async submit(wanted: Submit): Promise<PodGroupView> {
    return this._call('PodGroupView', '', wanted, { 'Idempotency-Key': freshKey() });
  }

  /** `keepalive`: the page goes, the request must not go with it. */
  async cancel(group: string, keepalive = false): Promise<PodGroupView> {
    return this._call('PodGroupView', `/${group}/cancel`, {}, {}, { keepalive });
  }

  async extend(group: string, by_s: number): Promise<PodGroupView> {
    return this._call('PodGroupView', `/${group}/extend`, { by_s });
  }

  async explain(group: string): Promise<ExplainView> {
    return this._call('ExplainView', `/${group}/explain`);
  }

  async logs(group: string, after: number, wait_s: number, signal: AbortSignal): Promise<LogPage> {
    const query = after > 0 ? `after=${after}` : 'tail=1000';
    return this._call(
      'LogPage',
      `/${group}/logs?${query}&wait_s=${wait_s}`,
      undefined,
      {},
      { signal }
    );
  }

  private async _call<N extends keyof Guarded>(
    name: N,
    path: string,
    body?: unknown,
    more: Readonly<Record<string, string>> = {},
    how: Pick<RequestInit, 'keepalive' | 'signal'> = {}
  ): Promise<Guarded[N]> {
    const { baseUrl, token } = this._config;
    const headers: Record<string, string> = { 'X-XSRFToken': cookie('_xsrf'), ...more };
    if (token) {
      headers.Authorization = `token ${token}`;
    }
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json';
    }
    const response = await fetch(`${baseUrl}kai/pod-groups${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      body: body === undefined ? null : JSON.stringify(body),
      headers,
      ...how
    });
    const data: unknown = await response.json().catch(() => null);
    if (!response.ok) {
      throw new Error(
        isA('Problem', data)
          ? `${data.detail} ${data.hint}`
          : `The server did not answer (${response.status}).`
      );
    }
    return guarded(name, data);
  }
}

function cookie(name: string): string {
  const found = new RegExp(`(?:^|; )${name}=([^;]*)`).exec(document.cookie);
  return found?.[1] === undefined ? '' : decodeURIComponent(found[1]);
}

/** Listen to the page's news; returns what stops it. A card that comes late asks for the last ones. */
export function listen(heard: (news: News) => void): () => void {
  const take = (event: Event): void => heard((event as CustomEvent<News>).detail);
  window.addEventListener('kai:requests', take);
  window.dispatchEvent(new Event('kai:hello'));
  return () => window.removeEventListener('kai:requests', take);
}

/** Ask the page for something only it can do: open a tab, insert a cell. Nothing happens where no page listens. */
export function askPage(
  command: string,
  args: Readonly<Record<string, string | number | boolean>>
): void {
  window.dispatchEvent(new CustomEvent('kai:do', { detail: { command, args } }));
}

export function keyOf(view: PodGroupView): string {
  return `${view.namespace}/${view.name}`;
}

/** The group's part of a path, as `Page` takes it. */
export function pathOf(view: PodGroupView): string {
  return `${encodeURIComponent(view.namespace)}/${encodeURIComponent(view.name)}`;
}

/** Lines that came without a page as the only page there is; not guarded yet. */
export function wholePage(lines: unknown): unknown {
  return { lines, next: 0, dropped: 0, ended: true, facts: {} };
}
