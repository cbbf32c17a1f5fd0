/**
 * The service says "about 6 min (4 to 11)" when it sends a view; the page counts on from there until the next one.
 *
 * Rule: only the service's own words for the time are exchanged, by its own rule (`words/units.range_words`), nothing else.
 */

import type { EtaView, PodGroupView } from '../api/schema';
import { duration } from './words';

/** Return the headline with its time counted on to `now`. */
export function headlineAt(view: Pick<PodGroupView, 'headline' | 'eta'>, now: number): string {
  const { eta, headline } = view;
  if (eta === null || eta.likely_at === null || eta.likely_at <= now) {
    return headline;
  }
  const at = headline.toLowerCase().indexOf(eta.text.toLowerCase());
  if (at < 0 || !eta.text.startsWith('about ')) {
    return headline;
  }
  const said = rangeAt(eta, eta.likely_at, now);
  const first = headline.charAt(at) === 'A' ? 'A' : 'a';
  return `${headline.slice(0, at)}${first}${said.slice(1)}${headline.slice(at + eta.text.length)}`;
}

function rangeAt(eta: EtaView, likely_at: number, now: number): string {
  const words = (at: number): string =>
    duration((Math.max(at, now) - now) / 1000).replace(/\u00a0/g, ' ');
  const likely = words(likely_at);
  const low = words(eta.earliest_at ?? likely_at);
  const high = words(eta.latest_at ?? likely_at);
  if (low === high) {
    return `about ${likely}`;
  }
  const unit = (text: string): string => text.slice(text.indexOf(' ') + 1);
  const short = unit(low) === unit(high) && unit(high) === unit(likely);
  const number = (text: string): string => (short ? text.slice(0, text.indexOf(' ')) : text);
  return `about ${likely} (${number(low)} to ${number(high)})`;
}
