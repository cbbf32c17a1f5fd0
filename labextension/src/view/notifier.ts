/** Telling a person what happened: a toast for each turn of a request, and one calm voice for screen readers. */

import { Notification } from '@jupyterlab/apputils';
import type { Notice, PodGroupView } from '../api/schema';
import type { ITrans } from '../draw/words';
import type { Transition } from '../model/state';
import { isLive } from '../model/state';

const VOICE_PAUSE_MS = 5000;

/** What a toast can lead to. */
export type NotifierDoors = {
  readonly trans: ITrans;
  readonly show: (group: string) => void;
  readonly wants: (what: 'granted' | 'trouble') => boolean;
};

type Told = {
  readonly kind: 'granted' | 'trouble';
  readonly type: 'success' | 'error' | 'warning';
};

/** A state that was reached is worth a toast, or not. */
function worth({ before, after }: Transition): Told | null {
  if (!after.mine || before?.state === after.state) {
    return null;
  }
  if (after.state === 'Running' || after.state === 'Succeeded') {
    const lease = after.kind !== 'gang';
    return lease && after.state === 'Succeeded' ? null : { kind: 'granted', type: 'success' };
  }
  return after.state === 'Evicted' || after.state === 'Failed'
    ? { kind: 'trouble', type: 'error' }
    : null;
}

export class Notifier {
  private readonly _watched = new Set<string>();
  /** When each group was granted that was told of: a lease that moves to another process is granted only once. */
  private readonly _granted = new Map<string, number | null>();

  constructor(private readonly _doors: NotifierDoors) {}

  /** Whether somebody asked to be told while the page is hidden. */
  get isWaiting(): boolean {
    return this._watched.size > 0;
  }

  /** Tell in the system's own way when this request starts, also while the page is hidden. */
  async watch(group: PodGroupView): Promise<void> {
    const permission =
      typeof window.Notification === 'function'
        ? await window.Notification.requestPermission()
        : 'denied';
    this._watched.add(keyOf(group));
    const { trans } = this._doors;
    const text =
      permission === 'granted'
        ? trans.__('You will be told when %1 starts, also in another tab.', group.name)
        : trans.__(
            'This browser allows no notifications from here. You will see it in this page when %1 starts.',
            group.name
          );
    Notification.info(text, { autoClose: 5000 });
  }

  turned(transition: Transition): void {
    const { after } = transition;
    const key = keyOf(after);
    if (
      after.state !== 'Waiting' &&
      this._watched.delete(key) &&
      isLive(after) &&
      window.Notification?.permission === 'granted'
    ) {
      new window.Notification(after.headline, { body: after.detail, tag: key });
    }
    const told = this._isToldAgain(after, key) ? null : worth(transition);
    if (told !== null && this._doors.wants(told.kind)) {
      this._toast(told.type, `${after.name}: ${after.headline}`, key);
    }
  }

  private _isToldAgain(group: PodGroupView, key: string): boolean {
    if (group.state !== 'Running') {
      return false;
    }
    const before = this._granted.get(key);
    this._granted.set(key, group.granted_at);
    return before !== undefined && before === group.granted_at;
  }

  noticed(notice: Notice): void {
    const warns = ['ending', 'idle', 'lead'].includes(notice.kind);
    // What a lead did is told whatever a person wants to hear of: it is not theirs to miss.
    const isWanted = notice.kind === 'lead' || this._doors.wants('trouble');
    if ((warns || notice.kind === 'refused') && isWanted) {
      this._toast(warns ? 'warning' : 'error', notice.text, `${notice.namespace}/${notice.name}`);
    }
  }

  private _toast(type: Told['type'], text: string, key: string): void {
    const { trans, show } = this._doors;
    Notification.emit(text, type, {
      autoClose: type === 'success' ? 8000 : false,
      actions: [{ label: trans.__('Show'), callback: () => show(key) }]
    });
  }
}

function keyOf(group: PodGroupView): string {
  return `${group.namespace}/${group.name}`;
}

/** The page's one polite live region: the newest sentence, at most one in five seconds. */
export class Voice {
  readonly node = document.createElement('div');
  private _next: string | null = null;
  private _resting = false;

  constructor() {
    this.node.className = 'jp-Kai jp-Kai-Sr';
    this.node.setAttribute('role', 'status');
    this.node.setAttribute('aria-live', 'polite');
  }

  say(sentence: string): void {
    this._next = sentence;
    if (!this._resting) {
      this._speak();
    }
  }

  private _speak(): void {
    if (this._next === null) {
      this._resting = false;
      return;
    }
    this.node.textContent = this._next;
    this._next = null;
    this._resting = true;
    window.setTimeout(() => this._speak(), VOICE_PAUSE_MS);
  }
}
