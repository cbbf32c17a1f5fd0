/**
 * A place on the page that shows the model: drawn once a frame at most, only while it is visible, listening at its root.
 *
 * Rule: no view fetches. A click becomes a command; what happens is the command's business.
 */

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { type Child, render } from '../draw/element';
import type { ITrans } from '../draw/words';
import type { IGpuModel } from '../tokens';

/** What every surface is given. */
export type Place = {
  readonly model: IGpuModel;
  readonly commands: CommandRegistry;
  readonly trans: ITrans;
};

/** The commands behind the words of `data-do`, for actions on a group. */
const GROUP_COMMANDS: Readonly<Record<string, string>> = {
  ask_again: 'kai:take-offer',
  cancel: 'kai:cancel-request',
  extend: 'kai:extend-lease',
  logs: 'kai:open-gang',
  'open-tab': 'kai:open-gang',
  release: 'kai:cancel-request',
  restart_kernel: 'kai:restart-kernel',
  result: 'kai:insert-code',
  smaller: 'kai:take-offer',
  switch_queue: 'kai:take-offer'
};

export abstract class Surface extends Widget {
  private _counts = false;

  constructor(
    protected readonly place: Place,
    node?: HTMLElement
  ) {
    super(node ? { node } : {});
    this.addClass('jp-Kai');
  }

  /** What the surface shows now. */
  protected abstract draw(): Child;

  /** What a click on `data-do` means here; the default is an action on a group. */
  protected does(what: string, button: HTMLElement): void {
    const group = button.closest<HTMLElement>('[data-group]')?.dataset.group;
    const index = button.dataset.index;
    const command = GROUP_COMMANDS[what];
    if (what === 'retry') {
      this.place.model.retry();
    } else if (what === 'copy') {
      void navigator.clipboard?.writeText(button.dataset.text ?? '');
    } else if (what === 'open-panel') {
      this.execute('kai:open-panel');
    } else if (command !== undefined && group !== undefined) {
      this.execute(command, index === undefined ? { group } : { group, index: Number(index) });
    }
  }

  protected execute(command: string, args: ReadonlyPartialJSONObject = {}): void {
    void this.place.commands.execute(command, args);
  }

  /** Whether something on the surface counts seconds, so that it is drawn again each second. */
  protected set counts(value: boolean) {
    this._counts = value;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('click', this);
    this.place.model.changed.connect(this._updated, this);
    this.place.model.ticked.connect(this._tick, this);
    this.update();
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener('click', this);
    this.place.model.changed.disconnect(this._updated, this);
    this.place.model.ticked.disconnect(this._tick, this);
    super.onBeforeDetach(message);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    if (this.isVisible) {
      render(this.node, this.draw());
    }
  }

  handleEvent(event: Event): void {
    const button =
      event.target instanceof Element ? event.target.closest<HTMLElement>('[data-do]') : null;
    if (event.type === 'click' && button !== null && this.node.contains(button)) {
      this.does(button.dataset.do ?? '', button);
    }
  }

  private _updated(): void {
    this.update();
  }

  private _tick(): void {
    if (this._counts || this.place.model.connection.kind === 'offline') {
      this.update();
    }
  }
}
