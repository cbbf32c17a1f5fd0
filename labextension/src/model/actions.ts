/** What a person can do to a request, in terms of the API. Every failure leaves as an error whose message is a sentence. */

import { freshKey } from '../api/key';
import type { ActionView, PodGroupView } from '../api/schema';
import type { IGpuModel } from '../tokens';
import { keyOf } from './state';

const HOUR_S = 3600;

/** Return the group called "namespace/name", or throw a sentence. */
export function groupOf(model: IGpuModel, key: string): PodGroupView {
  const group = model.state.groups.get(key);
  if (group === undefined) {
    throw new Error(`There is no request ${key} any more. The panel shows what there is.`);
  }
  return group;
}

/** End or withdraw a group. */
export async function end(model: IGpuModel, group: PodGroupView): Promise<PodGroupView> {
  const after = await model.api.cancel(group);
  model.take(after);
  return after;
}

/** Lengthen a lease; null keeps it until it is released. */
export async function extend(
  model: IGpuModel,
  group: PodGroupView,
  by_s: number | null
): Promise<PodGroupView> {
  const after = await model.api.extend(group, { by_s });
  model.take(after);
  return after;
}

/** Seconds that an action named like `%gpu extend 30min` stands for; an hour where it does not say. */
export function secondsOf(code: string | null): number {
  const said = /(\d+)\s*(s|m|min|h)\b/.exec(code ?? '');
  if (said === null) {
    return HOUR_S;
  }
  const unit: Readonly<Record<string, number>> = { s: 1, m: 60, min: 60, h: HOUR_S };
  return Number(said[1]) * (unit[said[2] ?? 'h'] ?? HOUR_S);
}

/** Take an offer: its request is made first, and only then is the waiting one withdrawn. */
export async function takeOffer(
  model: IGpuModel,
  group: PodGroupView,
  action: ActionView
): Promise<PodGroupView> {
  if (action.submit === null) {
    throw new Error(
      `This offer of ${keyOf(group)} cannot be taken from here. Run it as code: ${action.code ?? '%gpu'}`
    );
  }
  const taken = await model.api.submit(action.submit, freshKey());
  model.take(taken);
  if (group.state === 'Waiting') {
    await end(model, group);
  }
  return taken;
}
