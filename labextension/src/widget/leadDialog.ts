/**
 * The question before a change: what it is, what it would do, for how long, and why.
 *
 * A native dialog: Esc closes it, the page behind it is inert, and the focus goes back to the button.
 */

import { guarded } from '../api/guard';
import type { TeamView } from '../api/schema';
import { confirmation, effect } from '../draw/boardWhatIf';
import { type Child, h, render as renderInto } from '../draw/element';
import { plainWords as words } from '../draw/words';
import { dayTime, type LeadWish } from './leadWish';
import type { Questions } from './questions';

/** A change that is to be confirmed: `wishes` are made one after the other with one reason. */
export type Matter = {
  readonly title: string;
  readonly about: string;
  readonly verb: string;
  readonly wishes: ReadonlyArray<LeadWish>;
  /** What is still to be chosen. */
  readonly fields: ReadonlyArray<'gpu' | 'until'>;
  readonly hint: string;
  readonly gpu?: string;
};

type Data = Readonly<Record<string, string | undefined>>;

/** Return what a button means. */
export function whatOf(what: string, data: Data, view: TeamView): Matter {
  const queue = data.queue ?? '';
  const groups = (data.groups ?? '').split(' ').filter(key => key !== '');
  const make: Readonly<Record<string, () => Matter>> = {
    first: () => placed(queue, groups, view, 'first'),
    last: () => placed(queue, groups, view, 'last'),
    cap: () => capped(queue, data.who ?? '', view),
    drain: () => drained(queue),
    release: () => released(queue, groups, view),
    ask: () => asked(queue, groups, view)
  };
  const found = make[what];
  if (found === undefined) {
    throw new Error(words.__('This page does not know "%1". Reload it.', what));
  }
  return found();
}

function placed(
  queue: string,
  groups: ReadonlyArray<string>,
  view: TeamView,
  where: 'first' | 'last'
): Matter {
  const own = view.waiting.filter(row => groups.includes(row.group));
  const isFirst = where === 'first';
  const name = own.map(row => words.__('%1 of %2', row.name, row.who)).join(', ');
  return {
    title: isFirst
      ? words.__('Put %1 first in %2?', name, queue)
      : words.__('Put %1 last in %2?', name, queue),
    about: isFirst
      ? words.__(
          'It starts before the others that wait in %1. What runs in the queue at a lower priority may be stopped for it; that is shown here.',
          queue
        )
      : words.__('It starts after the others that wait in %1.', queue),
    verb: isFirst ? words.__('Put first') : words.__('Put last'),
    wishes: groups.map(group => ({ kind: 'priority', queue, group, place: where, reason: '' })),
    fields: [],
    hint: words.__('You can take it back at any time.')
  };
}

function capped(queue: string, person: string, view: TeamView): Matter {
  const row = view.people.find(item => item.who === person && item.queue === queue);
  return {
    title: words.__('How much may %1 hold in %2 at most?', person, queue),
    about: words.__('What runs goes on; nothing above it starts.'),
    verb: words.__('Set'),
    wishes: [{ kind: 'cap', queue, person, reason: '' }],
    fields: ['gpu', 'until'],
    hint: words.__('You can take it back at any time.'),
    gpu: String(Math.max(1, (row?.holds ?? 1000) / 1000))
  };
}

function drained(queue: string): Matter {
  return {
    title: words.__('Start nothing new in %1?', queue),
    about: words.__('What runs goes on to its end; what waits keeps its place.'),
    verb: words.__('Drain'),
    wishes: [{ kind: 'drain', queue, reason: '' }],
    fields: ['until'],
    hint: words.__('You can take it back at any time.')
  };
}

function released(queue: string, groups: ReadonlyArray<string>, view: TeamView): Matter {
  return {
    title: words.__('Release %1?', namesOf(groups, view)),
    about: words.__(
      'The owner has the grace time to save. Variables on the GPU are lost, files stay.'
    ),
    verb: words.__('Release'),
    wishes: groups.map(group => ({ kind: 'release', queue, group, reason: '' })),
    fields: [],
    hint: words.__('This can not be taken back.')
  };
}

function asked(queue: string, groups: ReadonlyArray<string>, view: TeamView): Matter {
  return {
    title: words.__('Write about %1', namesOf(groups, view)),
    about: words.__('The owner reads it in the notebook. Nothing is ended.'),
    verb: words.__('Send'),
    wishes: groups.map(group => ({ kind: 'ask', queue, group, reason: '' })),
    fields: [],
    hint: ''
  };
}

function namesOf(groups: ReadonlyArray<string>, view: TeamView): string {
  const rows = [...view.leases, ...view.waiting, ...view.gangs].filter(row =>
    groups.includes(row.group)
  );
  const told = rows.map(row => words.__('%1 of %2', row.name, row.who));
  return [...new Set(told)].join(', ') || groups.join(', ');
}

export class LeadDialog {
  private _node: HTMLDialogElement | null = null;

  constructor(private readonly _questions: Questions) {}

  close(): void {
    this._node?.close();
  }

  /** Ask, and make the change if it is confirmed; return what was done, "" for nothing. */
  show(matter: Matter): Promise<string> {
    return this._ask(matter.title, matter.about, matter, async (reason, data) => {
      const done: string[] = [];
      for (const wish of matter.wishes) {
        const whole = { ...wish, ...chosen(matter, data), reason };
        done.push(guarded('ChangeView', await this._questions.ask('change', whole)).text);
      }
      return done.join('. ');
    });
  }

  /** Ask for the reason of taking a change back. */
  showUndo(number: number, text: string): Promise<string> {
    const matter: Matter = {
      title: words.__('Take this back?'),
      about: text,
      verb: words.__('Take back'),
      wishes: [],
      fields: [],
      hint: ''
    };
    return this._ask(matter.title, text, matter, async reason => {
      await this._questions.ask('undo', { number, reason });
      return words.__('Taken back: %1', text);
    });
  }

  private _ask(
    title: string,
    about: string,
    matter: Matter,
    make: (reason: string, data: FormData) => Promise<string>
  ): Promise<string> {
    const trouble = h('p', { class: 'trouble', role: 'alert' });
    const shown = h('div', { 'aria-live': 'polite' });
    const form = h(
      'form',
      { method: 'dialog' },
      h('h2', { id: 'kai-dialog' }, title),
      h('p', {}, about),
      shown,
      fieldsOf(matter),
      reasonField(matter),
      trouble,
      matter.hint ? h('p', { class: 'jp-Kai-Soft' }, matter.hint) : null,
      confirmation(matter.verb, words)
    ) as HTMLFormElement;
    const node = h(
      'dialog',
      { class: 'jp-Kai jp-Kai-Dialog', 'aria-labelledby': 'kai-dialog', 'data-own': '' },
      form
    ) as HTMLDialogElement;
    document.body.append(node);
    this._node = node;
    node.showModal();
    void this._preview(matter, shown);
    return new Promise(resolve => {
      let done = '';
      node.addEventListener('click', event => {
        if (event.target instanceof Element && event.target.closest('[data-do="close"]') !== null) {
          node.close();
        }
      });
      form.addEventListener('submit', event => {
        event.preventDefault();
        const data = new FormData(form);
        make(String(data.get('reason') ?? ''), data)
          .then(text => {
            done = text;
            node.close();
          })
          .catch((error: unknown) => {
            trouble.textContent = error instanceof Error ? error.message : String(error);
          });
      });
      node.addEventListener('close', () => {
        node.remove();
        this._node = null;
        resolve(done);
      });
    });
  }

  /** What the change would do, where there is one change and nothing is left to choose. */
  private async _preview(matter: Matter, shown: HTMLElement): Promise<void> {
    const [wish, ...more] = matter.wishes;
    if (
      wish === undefined ||
      more.length > 0 ||
      wish.kind === 'ask' ||
      matter.fields.includes('gpu')
    ) {
      return;
    }
    try {
      const seen = await this._questions.ask('what_if', { ...wish, reason: 'what if' });
      renderInto(shown, h('div', {}, effect(guarded('WhatIfView', seen), words)));
    } catch {
      // The confirmation says what is wrong; the forecast is a help, not a condition.
    }
  }
}

function fieldsOf(matter: Matter): Child {
  if (matter.fields.length === 0) {
    return null;
  }
  return h(
    'div',
    { class: 'pairs' },
    matter.fields.includes('gpu')
      ? h(
          'label',
          {},
          words.__('GPUs at most'),
          h('input', {
            class: 'jp-Kai-Field',
            name: 'gpu',
            value: matter.gpu ?? '1',
            inputmode: 'decimal',
            required: true
          })
        )
      : null,
    h(
      'label',
      {},
      words.__('Until (empty: until you take it back)'),
      h('input', { class: 'jp-Kai-Field', name: 'until', type: 'time' })
    )
  );
}

function reasonField(matter: Matter): HTMLElement {
  const label =
    matter.wishes[0]?.kind === 'ask'
      ? words.__('Message')
      : words.__('Reason, shown to those concerned');
  const isNeeded = matter.wishes.length > 0;
  return h(
    'label',
    {},
    label,
    h('input', {
      class: 'jp-Kai-Field',
      name: 'reason',
      maxlength: 300,
      required: isNeeded,
      autofocus: true
    })
  );
}

function chosen(matter: Matter, data: FormData): Partial<LeadWish> {
  const until = matter.fields.includes('until')
    ? { until: dayTime(String(data.get('until') ?? ''), Date.now()) }
    : {};
  const gpu = matter.fields.includes('gpu') ? { gpu: String(data.get('gpu') ?? '').trim() } : {};
  return { ...until, ...gpu };
}
