/** Forecasts for the usual amounts, asked before the person commits and again when the queue moves. */

import { ISignal, Signal } from '@lumino/signaling';
import type { ForecastView } from '../api/schema';
import type { IGpuModel } from '../tokens';

export const AMOUNTS: ReadonlyArray<string> = ['0.25', '0.5', '1', '2'];

export class Forecasts {
  private readonly _known = new Map<string, ForecastView>();
  private readonly _changed = new Signal<this, void>(this);
  private _askedAtRev = -1;

  constructor(private readonly _model: IGpuModel) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Each amount with its forecast; null while it is being asked. */
  get choices(): ReadonlyArray<{ gpu: string; forecast: ForecastView | null }> {
    return AMOUNTS.map(gpu => ({ gpu, forecast: this._known.get(gpu) ?? null }));
  }

  /** Ask again if anything moved since the last time. A failed forecast stays open: the choice can still be made. */
  async refresh(): Promise<void> {
    const rev = this._model.state.rev;
    if (rev === this._askedAtRev) {
      return;
    }
    this._askedAtRev = rev;
    await Promise.allSettled(
      AMOUNTS.map(async gpu => {
        this._known.set(gpu, await this._model.api.forecast({ gpu }));
        this._changed.emit();
      })
    );
  }
}
