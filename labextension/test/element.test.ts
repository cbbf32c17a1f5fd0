// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';
import { h, render } from '../src/draw/element';

let host: HTMLElement;

beforeEach(() => {
  host = h('div');
  document.body.replaceChildren(host);
});

describe('bringing a drawing up to date', () => {
  it('never reads text as markup', () => {
    render(host, h('p', { title: '"<b>' }, '<img src=x onerror=alert(1)>'));
    expect(host.querySelector('img')).toBeNull();
    expect(host.textContent).toBe('<img src=x onerror=alert(1)>');
  });

  it('keeps the nodes, so that focus stays where it was', () => {
    render(host, h('button', { 'data-do': 'cancel' }, 'Cancel'), h('p', {}, 'Position 3'));
    const button = host.querySelector('button');
    button?.focus();
    render(
      host,
      h('button', { 'data-do': 'cancel', title: 'x' }, 'Cancel it'),
      h('p', {}, 'Position 2')
    );
    expect(document.activeElement).toBe(button);
    expect(button?.title).toBe('x');
    expect(host.textContent).toBe('Cancel itPosition 2');
  });

  it('follows keys when things move', () => {
    const row = (key: string): HTMLElement => h('li', { 'data-key': key }, key);
    render(host, row('a'), row('b'), row('c'));
    const b = host.children[1];
    render(host, row('c'), row('b'));
    expect([...host.children].map(child => child.textContent)).toEqual(['c', 'b']);
    expect(host.children[1]).toBe(b);
  });

  it('does not close what a person opened, nor forget what they typed', () => {
    const drawn = (text: string): HTMLElement[] => [
      h('details', {}, h('summary', {}, text)),
      h('input', { type: 'search' })
    ];
    render(host, ...drawn('one'));
    (host.querySelector('details') as HTMLDetailsElement).open = true;
    (host.querySelector('input') as HTMLInputElement).value = 'loss';
    render(host, ...drawn('two'));
    expect((host.querySelector('details') as HTMLDetailsElement).open).toBe(true);
    expect((host.querySelector('input') as HTMLInputElement).value).toBe('loss');
    expect(host.querySelector('summary')?.textContent).toBe('two');
  });

  it('leaves alone what draws itself', () => {
    const own = h('div', { 'data-own': true, 'data-key': 'log' }, 'lines');
    render(host, own);
    own.textContent = 'more lines';
    render(host, h('p', {}, 'new'), own);
    expect(own.textContent).toBe('more lines');
    expect(host.lastElementChild).toBe(own);
  });
});
