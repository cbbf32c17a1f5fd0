/**
 * Which of several cards of the same thing a card is: 1, 2, …
 *
 * Rule: the page keeps the numbers, because every widget is loaded as a module of its own and knows of no other.
 */

const KEEPER = Symbol.for('kai-jupyter.card-numbers');

type Taken = Map<string, Set<number>>;

function taken(): Taken {
  const page = globalThis as { [KEEPER]?: Taken };
  return (page[KEEPER] ??= new Map<string, Set<number>>());
}

export class CardNumber {
  private _thing: string | null = null;
  private _number = 0;

  /** Return the number among the cards of `thing`; it stays the same until the card shows another thing. */
  of(thing: string): number {
    if (thing !== this._thing) {
      this.release();
      const numbers = taken().get(thing) ?? new Set<number>();
      this._number = 1;
      while (numbers.has(this._number)) {
        this._number += 1;
      }
      taken().set(thing, numbers.add(this._number));
      this._thing = thing;
    }
    return this._number;
  }

  /** Let the next card have the number. */
  release(): void {
    if (this._thing !== null) {
      taken().get(this._thing)?.delete(this._number);
      this._thing = null;
    }
  }
}
