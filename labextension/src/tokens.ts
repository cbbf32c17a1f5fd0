/** What other plugins and extensions may ask for. */

import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { IKaiApi } from './api/client';
import type { Notice, PodGroupView } from './api/schema';
import type { KaiState, Transition } from './model/state';

export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'offline'; readonly retryAt: number; readonly text: string };

/** The live state of GPU requests, queues and devices on this page. */
export interface IGpuModel extends IDisposable {
  readonly api: IKaiApi;
  readonly state: KaiState;
  readonly connection: Connection;
  /** The service's clock, in ms. */
  readonly now: number;
  readonly age_s: number;
  readonly retry_s: number | null;
  readonly changed: ISignal<IGpuModel, void>;
  /** Once a second while the page is visible. */
  readonly ticked: ISignal<IGpuModel, void>;
  readonly transition: ISignal<IGpuModel, Transition>;
  readonly noticed: ISignal<IGpuModel, Notice>;
  /** Ask the service again now. */
  retry(): void;
  /** The page is hidden: no message comes until `resume`. */
  pause(): void;
  resume(): void;
  /** Take over an answer that came by another way than the stream. */
  take(group: PodGroupView): void;
}

export const IGpuModel = new Token<IGpuModel>(
  '@kai/jupyter:IGpuModel',
  'The live state of GPU requests, queues and devices on this page.'
);
