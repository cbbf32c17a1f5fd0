/** The one place where unknown data becomes a type. The table it reads is generated; nothing is checked twice. */

import {
  SHAPES,
  type ExplainView,
  type ForecastView,
  type Health,
  type LogPage,
  type PodGroupView,
  type Problem,
  type Shape,
  type StreamEvent,
  type Submit,
  type ChangeView,
  type TeamView,
  type WhatIfView
} from './schema';

/** What the guard answers for each name. */
export type Guarded = {
  ChangeView: ChangeView;
  ExplainView: ExplainView;
  ForecastView: ForecastView;
  Health: Health;
  LogPage: LogPage;
  PodGroupView: PodGroupView;
  Problem: Problem;
  StreamEvent: StreamEvent;
  Submit: Submit;
  TeamView: TeamView;
  WhatIfView: WhatIfView;
};

/** Data that is not what the service promises; says where. */
export class UnexpectedData extends Error {
  constructor(readonly path: string) {
    super(`The service sent something this page does not know (${path}). Reload the page.`);
    this.name = 'UnexpectedData';
  }
}

/** Return `data` as the type called `name`, or throw `UnexpectedData` with the path of the first difference. */
export function guarded<N extends keyof Guarded>(name: N, data: unknown): Guarded[N] {
  const wrong = difference({ is: name }, data, name);
  if (wrong !== null) {
    throw new UnexpectedData(wrong);
  }
  return data as Guarded[N];
}

/** Whether `data` is the type called `name`. */
export function isA<N extends keyof Guarded>(name: N, data: unknown): data is Guarded[N] {
  return difference({ is: name }, data, name) === null;
}

function difference(shape: Shape, data: unknown, path: string): string | null {
  if (typeof shape === 'string') {
    const fits = shape === 'null' ? data === null : typeof data === shape;
    return fits ? null : path;
  }
  if ('words' in shape) {
    return typeof data === 'string' && shape.words.includes(data) ? null : path;
  }
  if ('any' in shape) {
    const wrongs = shape.any.map(choice => difference(choice, data, path));
    return wrongs.includes(null) ? null : (wrongs.find(wrong => wrong !== path) ?? path);
  }
  if ('list' in shape) {
    return Array.isArray(data)
      ? firstOf(data, (item, index) => difference(shape.list, item, `${path}[${index}]`))
      : path;
  }
  return recordDifference(shape, data, path);
}

function recordDifference(
  shape: { map: Shape } | { is: string },
  data: unknown,
  path: string
): string | null {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    return path;
  }
  const record = data as Record<string, unknown>;
  if ('map' in shape) {
    return firstOf(Object.entries(record), ([key, value]) =>
      difference(shape.map, value, `${path}.${key}`)
    );
  }
  const fields = Object.entries(SHAPES[shape.is] ?? {});
  return firstOf(fields, ([key, inner]) => difference(inner, record[key], `${path}.${key}`));
}

function firstOf<T>(
  items: ReadonlyArray<T>,
  look: (item: T, index: number) => string | null
): string | null {
  for (const [index, item] of items.entries()) {
    const wrong = look(item, index);
    if (wrong !== null) {
      return wrong;
    }
  }
  return null;
}
