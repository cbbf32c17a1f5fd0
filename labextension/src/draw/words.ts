/**
 * Numbers, times and amounts in words. Sentences about a request are the service's; here are only labels and units.
 *
 * `Trans` is JupyterLab's translation bundle by shape, so that drawings can be translated without depending on it.
 */

/** In `_n`, %1 is the number and %2 … are the values, as in JupyterLab. */
export interface ITrans {
  __(text: string, ...values: (string | number)[]): string;
  _n(one: string, many: string, n: number, ...values: (string | number)[]): string;
}

/** The words as they stand, for pages without JupyterLab's translator. %1, %2 … are filled in. */
export const plainWords: ITrans = {
  __: filled,
  _n: (one, many, n, ...values) => filled(n === 1 ? one : many, n, ...values)
};

function filled(text: string, ...values: (string | number)[]): string {
  return text.replace(/%(\d)/g, (_, place: string) => String(values[Number(place) - 1] ?? ''));
}

/** Keep numbers and their units on one line. */
export function unbroken(text: string): string {
  return text
    .replace(/(\d) of (?=\d)/g, '$1\u00a0of\u00a0')
    .replace(/(\d) (?=[A-Za-z%×])/g, '$1\u00a0');
}

/** Return 500 as "0.5": GPUs without trailing zeros. */
export function gpus(milli: number): string {
  return String(Math.round(milli) / 1000);
}

/** Return an amount of memory with its unit: "20 GiB", "512 MiB". */
export function memory(mib: number): string {
  if (mib < 1024) {
    return `${mib}\u00a0MiB`;
  }
  const gib = mib / 1024;
  return `${Number.isInteger(gib) ? gib : gib.toFixed(1)}\u00a0GiB`;
}

/** Return a size in bytes with its unit. */
export function bytes(size: number): string {
  return size < 1024 * 1024
    ? `${Math.max(1, Math.round(size / 1024))}\u00a0KiB`
    : memory(Math.round(size / 1024 / 1024));
}

/** Return a length of time as people say it: "40 s", "6 min", "3 h 24 min"; seconds below two minutes, as the service does. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) {
    return `${s}\u00a0s`;
  }
  const minutes = Math.round(s / 60);
  if (minutes < 60) {
    return `${minutes}\u00a0min`;
  }
  const rest = minutes % 60;
  const hours = `${Math.floor(minutes / 60)}\u00a0h`;
  return rest === 0 ? hours : `${hours} ${rest}\u00a0min`;
}

/** Return the local time of day: "10:36". */
export function clock(at: number): string {
  return new Date(at).toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23'
  });
}

/** Return the local time to the millisecond, for log lines. */
export function preciseClock(at: number): string {
  const time = new Date(at);
  const part = (value: number, width: number): string => String(value).padStart(width, '0');
  return `${part(time.getHours(), 2)}:${part(time.getMinutes(), 2)}:${part(time.getSeconds(), 2)}.${part(time.getMilliseconds(), 3)}`;
}

/** Return the moment in UTC, for the hint of a local time. */
export function utc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** Return a whole number with separators. */
export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** "2.4 GPU-hours", small amounts in minutes, by the service's rule (`words/units.gpu_hours`). */
export function gpuHours(seconds: number): string {
  const hours = seconds / 3600;
  return hours >= 0.1
    ? `${hours.toFixed(1)} GPU-hours`
    : `${(seconds / 60).toFixed(1)} GPU-minutes`;
}
