/**
 * Names of regions: no two on a page are alike, so that a screen reader's list of regions tells them apart.
 *
 * Rule: a drawing names its regions by what they show; who draws the same thing twice says here which one it is.
 */

const NAMED = '[role="region"][aria-label]';

/** Give every named region in `root`, and `root` itself, the name that `rename` makes of its own; return `root`. */
export function renamed(root: HTMLElement, rename: (name: string) => string): HTMLElement {
  const regions = [...root.querySelectorAll(NAMED), ...(root.matches(NAMED) ? [root] : [])];
  for (const region of regions) {
    region.setAttribute('aria-label', rename(region.getAttribute('aria-label') ?? ''));
  }
  return root;
}
