/** The choices that the kernel offers on the card that asks, guarded, and the request that a choice becomes. */

import { guarded, isA } from '../api/guard';
import type { Submit } from '../api/schema';
import type { AskOptions, AskPick, Choice } from '../draw/ask';
import { secondsOf } from '../model/actions';

/** A choice with the request behind it. */
export type AskedChoice = Choice & { readonly submit: Submit };
export type Asked = AskOptions & { readonly choices: ReadonlyArray<AskedChoice> };

const NOTHING: Asked = { choices: [], queues: [], durations: [] };

/** Return the kernel's `ask` trait as choices; nothing where it is empty or something else. */
export function askedOf(trait: unknown): Asked {
  const { choices, queues, durations } = (trait ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(choices)) {
    return NOTHING;
  }
  return { choices: choices.flatMap(choiceOf), queues: texts(queues), durations: texts(durations) };
}

function choiceOf(data: unknown): AskedChoice[] {
  const { gpu, submit } = data as Readonly<Record<string, unknown>>;
  if (!isA('ForecastView', data) || !isA('Submit', submit)) {
    return [];
  }
  return [{ gpu: String(gpu), forecast: guarded('ForecastView', data), submit }];
}

function texts(data: unknown): ReadonlyArray<string> {
  return Array.isArray(data) ? data.map(String) : [];
}

/** Return the request for what was picked. */
export function submitOf(asked: Asked, gpu: string, pick: AskPick): Submit | null {
  const choice = asked.choices.find(item => item.gpu === gpu);
  if (choice === undefined) {
    return null;
  }
  const lease_s = pick.duration === '' ? choice.submit.lease_s : secondsOf(pick.duration);
  return { ...choice.submit, queue: pick.queue ?? choice.submit.queue, lease_s };
}
