/** Questions of the page to the kernel, each with a number that its answer bears. */

/** What can take a message. */
export type Sender = { send(message: unknown): void };

const PATIENCE_MS = 30_000;

type Waiting = {
  readonly done: (value: unknown) => void;
  readonly failed: (error: Error) => void;
  readonly timer: ReturnType<typeof setTimeout>;
};

export class Questions {
  private readonly _waiting = new Map<string, Waiting>();

  constructor(private readonly _model: Sender) {}

  /** Return what the kernel answers; its refusal is thrown in its own words. */
  ask(kind: string, wish: unknown): Promise<unknown> {
    const id = `${Date.now()}-${Math.random()}`;
    return new Promise((done, failed) => {
      const timer = setTimeout(() => {
        this._waiting.delete(id);
        failed(
          new Error('The queue did not answer. Look at the list of changes before you try again.')
        );
      }, PATIENCE_MS);
      this._waiting.set(id, { done, failed, timer });
      this._model.send({ kind, id, ask: wish });
    });
  }

  /** Take a message of the kernel; another page's answer is nobody's here. */
  readonly answered = (message: unknown): void => {
    const { kind, id, data, trouble } = (message ?? {}) as Readonly<Record<string, unknown>>;
    const waiting = kind === 'answer' ? this._waiting.get(String(id)) : undefined;
    if (waiting === undefined) {
      return;
    }
    this._waiting.delete(String(id));
    clearTimeout(waiting.timer);
    if (typeof trouble === 'string' && trouble !== '') {
      waiting.failed(new Error(trouble));
    } else {
      waiting.done(data);
    }
  };
}
