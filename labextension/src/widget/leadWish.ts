/** What a lead wants, as the service takes it, and moments from what a person types. */

import type { LeadAsk } from '../api/schema';

export type LeadWish = Pick<LeadAsk, 'kind' | 'queue' | 'reason'> & Partial<LeadAsk>;

const DAY_MS = 86_400_000;

/** Return the next moment of this time of day ("18:00"), null for what is none. */
export function dayTime(text: string, now: number): number | null {
  const found = /^(\d{1,2}):(\d{2})$/.exec(text.trim());
  if (found === null) {
    return null;
  }
  const at = new Date(now);
  at.setHours(Number(found[1]), Number(found[2]), 0, 0);
  return at.getTime() > now ? at.getTime() : at.getTime() + DAY_MS;
}
