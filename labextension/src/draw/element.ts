/**
 * Building elements and bringing a drawn tree up to date.
 *
 * Rule: text only ever enters as text nodes and attributes, never as markup. A drawing function returns a fresh tree;
 * `morph` changes the tree on the page into it and keeps what a person holds: focus, selection, scroll, an open <details>.
 */

export type Attribute = string | number | boolean | null | undefined;
export type Child = Node | string | number | false | null | undefined | ReadonlyArray<Child>;
export type Attributes = Readonly<Record<string, Attribute>>;

const SVG = 'http://www.w3.org/2000/svg';

/** Return a new element; children that are false, null or undefined are left out. */
export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/** Return a new SVG element. */
export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
}

function append(element: Element, children: ReadonlyArray<Child>): void {
  for (const child of children) {
    if (Array.isArray(child)) {
      append(element, child);
    } else if (child instanceof Node) {
      element.append(child);
    } else if (child !== false && child !== null && child !== undefined) {
      element.append(String(child));
    }
  }
}

/** Make the children of `host` equal to `next`, reusing nodes where tag and `data-key` agree. */
export function render(host: Element, ...next: Child[]): void {
  const wanted = document.createElement('div');
  append(wanted, next);
  morphChildren(host, wanted);
}

function morphChildren(host: Element, wanted: Element): void {
  const keyed = new Map<string, Element>();
  for (const child of Array.from(host.children)) {
    const key = child.getAttribute('data-key');
    if (key !== null) {
      keyed.set(key, child);
    }
  }
  let cursor = host.firstChild;
  for (const target of Array.from(wanted.childNodes)) {
    const reused = reusable(cursor, target, keyed);
    if (reused === null) {
      host.insertBefore(target, cursor);
      continue;
    }
    if (reused === cursor) {
      cursor = cursor.nextSibling;
    } else {
      host.insertBefore(reused, cursor);
    }
    morphNode(reused, target);
  }
  while (cursor !== null) {
    const gone = cursor;
    cursor = cursor.nextSibling;
    gone.remove();
  }
}

function reusable(
  cursor: ChildNode | null,
  target: ChildNode,
  keyed: ReadonlyMap<string, Element>
): ChildNode | null {
  if (target instanceof Element) {
    const key = target.getAttribute('data-key');
    if (key !== null) {
      const old = keyed.get(key);
      return old !== undefined && old.tagName === target.tagName ? old : null;
    }
    const same = cursor instanceof Element && cursor.tagName === target.tagName;
    return same && !cursor.hasAttribute('data-key') ? cursor : null;
  }
  return cursor !== null && cursor.nodeType === target.nodeType ? cursor : null;
}

function morphNode(node: ChildNode, target: ChildNode): void {
  if (!(node instanceof Element) || !(target instanceof Element)) {
    if (node.nodeValue !== target.nodeValue) {
      node.nodeValue = target.nodeValue;
    }
    return;
  }
  if (target.hasAttribute('data-own')) {
    return; // drawn and kept by somebody else (the log)
  }
  morphAttributes(node, target);
  morphChildren(node, target);
}

/** What the person sets, not the drawing: an open disclosure stays open, a typed value stays typed. */
const KEPT: Readonly<Record<string, ReadonlyArray<string>>> = {
  DETAILS: ['open'],
  INPUT: ['value'],
  SELECT: ['value']
};

function morphAttributes(node: Element, target: Element): void {
  const kept = KEPT[node.tagName] ?? [];
  for (const { name } of Array.from(node.attributes)) {
    if (!target.hasAttribute(name) && !kept.includes(name)) {
      node.removeAttribute(name);
    }
  }
  for (const { name, value } of Array.from(target.attributes)) {
    if (!kept.includes(name) && node.getAttribute(name) !== value) {
      node.setAttribute(name, value);
    }
  }
}
