/** Every action of the page as a command: named, described, callable from palette, menus, shortcuts and tests. */

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ActionView, PodGroupView } from './api/schema';
import { end, extend, groupOf, secondsOf, takeOffer } from './model/actions';
import { isLive, mine } from './model/state';
import type { IGpuModel } from './tokens';
import type { Notebooks } from './view/notebooks';

export const COMMANDS = {
  cancel: 'kai:cancel-request',
  endAll: 'kai:end-all',
  explain: 'kai:explain-request',
  extend: 'kai:extend-lease',
  goToLine: 'kai:go-to-line',
  insertCode: 'kai:insert-code',
  move: 'kai:move-to-gpu',
  notify: 'kai:notify-me',
  openGang: 'kai:open-gang',
  openPanel: 'kai:open-panel',
  request: 'kai:request-gpu',
  restart: 'kai:restart-kernel',
  retry: 'kai:retry',
  runAsGang: 'kai:run-cell-as-gang',
  takeOffer: 'kai:take-offer'
} as const;

/** What a card in a notebook may ask the page to do; everything else it does itself. */
export const FROM_CARDS: ReadonlySet<string> = new Set([
  COMMANDS.explain,
  COMMANDS.goToLine,
  COMMANDS.insertCode,
  COMMANDS.notify,
  COMMANDS.openGang,
  COMMANDS.openPanel,
  COMMANDS.restart,
  COMMANDS.retry
]);

/** What the commands are made of. */
export type Doors = {
  readonly model: IGpuModel;
  readonly trans: TranslationBundle;
  readonly notebooks: Notebooks;
  readonly icon: LabIcon;
  readonly gangIcon: LabIcon;
  readonly gangWorkers: () => number;
  readonly openPanel: (ask: boolean) => void;
  readonly openGroup: (group: string, explain: boolean) => Promise<void>;
  readonly notify: (group: PodGroupView) => Promise<void>;
  /** Says what a move to another kernel loses; whether the person wants it. */
  readonly confirmMove: () => Promise<boolean>;
  /** Tells a failure to the person. */
  readonly fail: (error: unknown) => void;
};

const GROUP: ReadonlyJSONObject = {
  type: 'string',
  description: 'The request, as "namespace/name".'
};
const INDEX: ReadonlyJSONObject = {
  type: 'integer',
  minimum: 0,
  description: "Which of the request's actions."
};

function taking(
  properties: ReadonlyJSONObject,
  ...required: string[]
): { args: ReadonlyJSONObject } {
  return { args: { type: 'object', properties, required, additionalProperties: true } };
}

/** Add all commands. Each failure reaches the person as a sentence, and the caller as a rejected promise. */
export function addCommands(commands: CommandRegistry, doors: Doors): void {
  addRequestCommands(commands, doors);
  addLeaseCommands(commands, doors);
  addGroupCommands(commands, doors);
  addNotebookCommands(commands, doors);
}

type Run = (args: ReadonlyPartialJSONObject) => unknown;

function told(doors: Doors, run: Run): (args: ReadonlyPartialJSONObject) => Promise<unknown> {
  return async args => {
    try {
      return await run(args);
    } catch (error) {
      doors.fail(error);
      throw error;
    }
  };
}

function text(args: ReadonlyPartialJSONObject, name: string): string {
  return String(args[name] ?? '');
}

function actionOf(
  doors: Doors,
  args: ReadonlyPartialJSONObject
): { group: PodGroupView; action: ActionView } {
  const group = groupOf(doors.model, text(args, 'group'));
  const action = group.actions[Number(args.index)];
  if (action === undefined) {
    throw new Error(doors.trans.__('%1 has changed meanwhile; this action is gone.', group.name));
  }
  return { group, action };
}

function addRequestCommands(commands: CommandRegistry, doors: Doors): void {
  const { model, trans, notebooks } = doors;
  commands.addCommand(COMMANDS.openPanel, {
    label: trans.__('Show GPU Shares'),
    caption: trans.__('Show my requests, the queue and the GPUs'),
    icon: doors.icon,
    describedBy: taking({}),
    execute: () => doors.openPanel(false)
  });
  commands.addCommand(COMMANDS.request, {
    label: trans.__('Ask for a GPU Share…'),
    caption: trans.__('Write %gpu into a cell of the notebook and run it'),
    icon: doors.icon,
    describedBy: taking({
      gpu: {
        type: 'string',
        description: 'How much: "0.5", "1". Left out: choose from the forecasts.'
      }
    }),
    execute: told(doors, async args => {
      if (args.gpu === undefined) {
        doors.openPanel(true);
        return;
      }
      await notebooks.insert(notebooks.current(), `%gpu ${text(args, 'gpu')}`, true);
    })
  });
  commands.addCommand(COMMANDS.retry, {
    label: trans.__('Ask the GPU Service Again'),
    describedBy: taking({}),
    isEnabled: () => model.connection.kind === 'offline',
    execute: () => model.retry()
  });
}

function addLeaseCommands(commands: CommandRegistry, doors: Doors): void {
  const { model, trans } = doors;
  commands.addCommand(COMMANDS.cancel, {
    label: trans.__('Cancel or Release a GPU Request'),
    describedBy: taking({ group: GROUP }, 'group'),
    execute: told(doors, async args => {
      await end(model, groupOf(model, text(args, 'group')));
    })
  });
  commands.addCommand(COMMANDS.extend, {
    label: trans.__('Extend a GPU Lease'),
    describedBy: taking(
      {
        group: GROUP,
        index: INDEX,
        by_s: {
          type: 'integer',
          minimum: 1,
          description: 'Seconds; without it, what the action says.'
        }
      },
      'group'
    ),
    execute: told(doors, async args => {
      const by_s =
        args.by_s === undefined
          ? secondsOf(actionOf(doors, args).action.code ?? null)
          : Number(args.by_s);
      await extend(model, groupOf(model, text(args, 'group')), by_s);
    })
  });
  commands.addCommand(COMMANDS.takeOffer, {
    label: trans.__('Take an Offer for a GPU Request'),
    describedBy: taking({ group: GROUP, index: INDEX }, 'group', 'index'),
    execute: told(doors, async args => {
      const { group, action } = actionOf(doors, args);
      if (group.kind === 'kernel' && action.id === 'ask_again') {
        const { notebooks } = doors;
        await notebooks.startAgain(
          notebooks.ofKernel(group.origin.kernel_id) ?? notebooks.current()
        );
      } else {
        await takeOffer(model, group, action);
      }
    })
  });
  commands.addCommand(COMMANDS.endAll, {
    label: trans.__('Release All My GPU Shares'),
    describedBy: taking({}),
    isEnabled: () => mine(model.state).some(isLive),
    execute: told(doors, async () => {
      await Promise.all(
        mine(model.state)
          .filter(isLive)
          .map(group => end(model, group))
      );
    })
  });
}

function addGroupCommands(commands: CommandRegistry, doors: Doors): void {
  const { model, trans } = doors;
  commands.addCommand(COMMANDS.openGang, {
    label: trans.__('Open a GPU Request in a Tab'),
    icon: doors.icon,
    describedBy: taking({ group: GROUP }, 'group'),
    execute: told(doors, args => doors.openGroup(text(args, 'group'), false))
  });
  commands.addCommand(COMMANDS.explain, {
    label: trans.__('Why Does a GPU Request Wait?'),
    describedBy: taking({ group: GROUP }, 'group'),
    execute: told(doors, args => doors.openGroup(text(args, 'group'), true))
  });
  commands.addCommand(COMMANDS.notify, {
    label: trans.__('Notify Me When a GPU Request Starts'),
    describedBy: taking({ group: GROUP }, 'group'),
    execute: told(doors, args => doors.notify(groupOf(model, text(args, 'group'))))
  });
}

function addNotebookCommands(commands: CommandRegistry, doors: Doors): void {
  const { model, trans, notebooks } = doors;
  commands.addCommand(COMMANDS.runAsGang, {
    label: args => (args.toolbar ? '' : trans.__('Run Cell on N Workers')),
    caption: trans.__('Run this cell on N workers: writes %%gang on top of it'),
    icon: doors.gangIcon,
    describedBy: taking({
      workers: { type: 'integer', minimum: 1, description: 'How many workers.' },
      toolbar: { type: 'boolean' }
    }),
    execute: told(doors, args =>
      notebooks.makeGang(notebooks.current(), Number(args.workers ?? doors.gangWorkers()))
    )
  });
  commands.addCommand(COMMANDS.insertCode, {
    label: trans.__('Insert Code for a GPU Request'),
    describedBy: taking({
      code: { type: 'string', description: 'What goes into the cell.' },
      run: { type: 'boolean', description: 'Run it, too.' },
      group: GROUP,
      index: INDEX
    }),
    execute: told(doors, async args => {
      const code =
        args.code === undefined ? (actionOf(doors, args).action.code ?? '') : text(args, 'code');
      await notebooks.insert(notebooks.current(), code, args.run === true);
    })
  });
  commands.addCommand(COMMANDS.goToLine, {
    label: trans.__('Go to the Failing Line of a Gang'),
    describedBy: taking({ group: GROUP, line: { type: 'integer', minimum: 1 } }, 'group', 'line'),
    execute: told(doors, args => {
      const group = groupOf(model, text(args, 'group'));
      if (!notebooks.goToLine(group.failure?.source ?? '', Number(args.line))) {
        throw new Error(trans.__('The cell of %1 is not in an open notebook.', group.name));
      }
    })
  });
  commands.addCommand(COMMANDS.move, {
    label: trans.__('Move the Notebook to a GPU Kernel'),
    caption: trans.__('Its variables are lost; cells, files and what it holds of a GPU are kept'),
    describedBy: taking({
      kernel_name: { type: 'string', description: 'The kernel to move to; "kai-gpu" if left out.' },
      kernel_id: { type: 'string', description: 'The kernel that the notebook has now.' },
      told: { type: 'boolean', description: 'Whether the person was told what is lost.' }
    }),
    execute: told(doors, async args => {
      const named = text(args, 'kernel_id') || null;
      const panel = notebooks.ofKernel(named) ?? notebooks.current();
      const before = panel.sessionContext.session?.kernel?.id ?? '';
      if (args.told === true || (await doors.confirmMove())) {
        const name = text(args, 'kernel_name') || 'kai-gpu';
        await notebooks.moveTo(panel, await model.api.moveKernel(before, name));
      }
    })
  });
  commands.addCommand(COMMANDS.restart, {
    label: trans.__('Restart the Kernel of a GPU Request'),
    describedBy: taking({ group: GROUP }, 'group'),
    execute: told(doors, async args => {
      const group = groupOf(model, text(args, 'group'));
      const panel = notebooks.ofKernel(group.origin.kernel_id) ?? notebooks.current();
      await panel.sessionContext.restartKernel();
    })
  });
}
