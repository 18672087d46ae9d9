/** Fits a table to its width: less space between columns, shorter texts, the last columns only in the menu. */

/** A column as it was drawn. */
export interface Drawn {
  readonly width: number;
  readonly isText: boolean;
}

export interface Fit {
  /** The maximum width of a text column, in pixels. */
  readonly text: number;
  /** The number of shown columns. */
  readonly kept: number;
}

/** How much narrower a column is in a `tight` table; answers.css has its padding. */
const SPARED = 6;
/** Minimum width of a useful text, in pixels, including the ellipsis. */
const SHORTEST = 200;
/** Part of the columns that stay: a table that would lose more is scrolled instead. */
const LEAST_KEPT = 2 / 3;

/** Null if the columns fit unchanged. */
export function fitted(columns: readonly Drawn[], room: number, mayLeaveOut: boolean): Fit | null {
  const sum = (widths: readonly number[]) => widths.reduce((total, one) => total + one, 0);
  if (sum(columns.map((one) => one.width)) <= room) return null;
  const tight = columns.map((one) => ({ ...one, width: one.width - SPARED }));
  const least = (some: readonly Drawn[]) =>
    sum(some.map((one) => (one.isText ? Math.min(one.width, SHORTEST) : one.width)));
  let kept = tight.length;
  while (mayLeaveOut && kept > 1 && least(tight.slice(0, kept)) > room) kept -= 1;
  if (kept < LEAST_KEPT * tight.length) kept = tight.length;
  const shown = tight.slice(0, kept);
  // Each text gets the same width, and leaves to the others what it does not need.
  let left = room - sum(shown.filter((one) => !one.isText).map((one) => one.width));
  const texts = shown.filter((one) => one.isText).map((one) => one.width);
  texts.sort((a, b) => a - b);
  let text = SHORTEST;
  for (const [place, width] of texts.entries()) {
    text = Math.max(SHORTEST, Math.floor(left / (texts.length - place)));
    left -= Math.min(width, text);
  }
  return { text, kept };
}
