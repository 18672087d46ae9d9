/** Makes texts from files safe for the page: removes direction marks, and shortens long texts. */

/** A text without marks that would reverse the letters after them, as in the terminal. */
export function plain(text: string): string {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** Longer texts are wider than any element, and slow to measure. */
const LONGEST = 200;

/** The nearest place up to `at` that is not inside a character: an emoji has two units. */
export function between(text: string, at: number): number {
  return at > 0 && (text.codePointAt(at - 1) ?? 0) > 0xffff ? at - 1 : at;
}

/** The start of a text that fits on a canvas, in pixels; empty if not even a letter fits. */
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
