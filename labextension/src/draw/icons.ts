/** The icon set, drawn on a 16 px grid in the colour of the text beside it. An icon never stands without a word or a name. */

import { svg } from './element';

const PATHS = {
  alert: 'M8 2.5 14.2 13.5H1.8zM8 6.5v3.3M8 11.6v.1',
  arrow: 'M8 2.5V10M5 7.2l3 3 3-3M3 13.5h10',
  bell: 'M4 11.3V7a4 4 0 0 1 8 0v4.3l1 1.2H3zM6.7 14.3h2.6',
  check: 'm3.5 8.5 3 3 6-7',
  clock: 'M2 8a6 6 0 1 0 12 0A6 6 0 1 0 2 8M8 4.5V8l2.3 1.5',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  cross: 'M2 8a6 6 0 1 0 12 0A6 6 0 1 0 2 8M6 6l4 4M10 6l-4 4',
  dots: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  down: 'm4 6 4 4 4-4',
  fall: 'M8 3v10M4 9l4 4 4-4',
  follow: 'M8 2.5v8M5 7.5l3 3 3-3M4 13.5h8',
  gpu: 'M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14',
  hourglass:
    'M4 2h8M4 14h8M5 2v2.4C5 6.2 8 7 8 8s-3 1.8-3 3.6V14M11 2v2.4C11 6.2 8 7 8 8s3 1.8 3 3.6V14',
  level: 'M3 8h10',
  link: 'M6.5 4h-3v8.5H12v-3M9 3h4v4M13 3 7.5 8.5',
  moon: 'M13.2 9.4A5.6 5.6 0 0 1 6.6 2.8a5.6 5.6 0 1 0 6.6 6.6z',
  more: 'M8 3.5v.01M8 8v.01M8 12.5v.01',
  node: 'M2.5 3.5h11v3.5h-11zM2.5 9h11v3.5h-11zM4.8 5.2v.1M4.8 10.7v.1',
  octagon: 'M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM5.5 8h5',
  page: 'M4 2.5h5.5L12 5v8.5H4zM6 8h4M6 10.5h4',
  pin: 'M5.5 2.5h5M6.5 2.5V7L4 9.5h8L9.5 7V2.5M8 9.5V14',
  plug: 'M6 2v3M10 2v3M4 5h8v2.5a4 4 0 0 1-8 0zM8 11.5V14',
  plus: 'M8 3v10M3 8h10',
  right: 'm6 4 4 4-4 4',
  search: 'M2.8 7a4.2 4.2 0 1 0 8.4 0 4.2 4.2 0 1 0-8.4 0M10.2 10.2l3.3 3.3',
  square: 'M4 4h8v8H4z',
  squares: 'M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z',
  table: 'M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6',
  tick: 'M2 8a6 6 0 1 0 12 0A6 6 0 1 0 2 8M5.3 8.2l1.9 1.9 3.5-3.9',
  triangle: 'M5 3.2v9.6L12.5 8z',
  undo: 'M6 3 2.8 6.2 6 9.4M3 6.2h6.5a3.6 3.6 0 0 1 0 7.2H6',
  up: 'M8 13V3M4 7l4-4 4 4',
  x: 'm4 4 8 8M12 4l-8 8'
} as const;

export type IconName = keyof typeof PATHS;

/** Return the drawing of `name`; a name that this page does not know gets three dots. */
export function icon(name: string): SVGElement {
  const path = name in PATHS ? PATHS[name as IconName] : PATHS.dots;
  const heavy = name === 'more' || name === 'dots' || !(name in PATHS);
  return svg(
    'svg',
    { class: 'jp-Kai-Icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' },
    svg('path', { d: path, 'stroke-width': heavy ? 2.5 : null })
  );
}

/** Return the icon as markup, for JupyterLab's `LabIcon`. Only our own constants go in. */
export function iconMarkup(name: IconName): string {
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><path class="jp-icon3 jp-icon-stroke"' +
    ` stroke="#616161" fill="none" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" d="${PATHS[name]}"/></svg>`
  );
}
