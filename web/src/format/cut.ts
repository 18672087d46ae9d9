/** Texts of a file in a place of the page: what would turn the words beside them around, what is too long. */

/** A text without marks that order the letters behind them from right to left, as the terminal shows it. */
export function plain(text: string): string {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** Longer texts are wider than any place, and slow to measure. */
const LONGEST = 200;

/** A place to cut a text at or before another, which may lie within a character: an emoji is two units long. */
export function between(text: string, at: number): number {
  return at > 0 && (text.codePointAt(at - 1) ?? 0) > 0xffff ? at - 1 : at;
}

/** The start of a text that has room on a canvas, in pixels; nothing where not even a letter has. */
export function fitting(
  pen: Pick<CanvasRenderingContext2D, "measureText">,
  text: string,
  room: number,
): string {
  const start = plain(text.slice(0, between(text, LONGEST)));
  const wide = pen.measureText(start).width;
  if (wide <= room) return start;
  let kept = Math.floor((start.length * room) / wide);
  const cut = () => `${start.slice(0, between(start, kept))}…`;
  while (kept > 0 && pen.measureText(cut()).width > room) kept -= 1;
  return kept > 0 ? cut() : "";
}
