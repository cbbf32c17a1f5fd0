/**
 * A release that can be taken back: nothing is sent for five seconds, and then it is.
 *
 * Rule: a card or a page that goes sends at once. Nobody's GPU stays held because a tab was closed too early.
 */

export const UNDO_S = 5;

export class LateRelease {
  private readonly _until: number;
  private readonly _beat: ReturnType<typeof setInterval>;
  private _isOver = false;

  /** `send` releases; `redraw` is called each second, and once it is over. */
  constructor(
    private readonly _send: (keepalive: boolean) => void,
    private readonly _redraw: () => void
  ) {
    this._until = Date.now() + UNDO_S * 1000;
    this._beat = setInterval(this._tick, 1000);
    window.addEventListener('pagehide', this._goes);
  }

  /** Whether it can still be taken back. */
  get isPending(): boolean {
    return !this._isOver;
  }

  get left_s(): number {
    return Math.max(0, Math.ceil((this._until - Date.now()) / 1000));
  }

  /** Take the release back: nothing was sent, nothing has changed. */
  undo(): void {
    this._end();
    this._redraw();
  }

  /** Release now. */
  flush(keepalive = false): void {
    if (this.isPending) {
      this._end();
      this._send(keepalive);
      this._redraw();
    }
  }

  private readonly _goes = (): void => this.flush(true);

  private readonly _tick = (): void => {
    if (Date.now() >= this._until) {
      this.flush();
    } else {
      this._redraw();
    }
  };

  private _end(): void {
    this._isOver = true;
    clearInterval(this._beat);
    window.removeEventListener('pagehide', this._goes);
  }
}
