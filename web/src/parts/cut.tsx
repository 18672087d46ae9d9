/** Shortens a long name in the middle: its start says what it is, its end tells it apart. */
import { between, plain } from "../format/cut";

const TAIL = 11;
const SHORT = 24;
/** Keeps the last part of a path up to this length. */
const INNERMOST = /^[\w.-]+\.([\w-]{1,26})$/;
/** A tail is extended by up to this much to include its first word. */
const CUT_WORD = new RegExp(`\\s(\\S{1,4})\\S.{${TAIL - 1}}$`);

export function Cut({ text: written }: { readonly text: string }) {
  const text = plain(written).replace(/\s/g, " "); // a line break in a name would break the page's line
  if (text.length <= SHORT)
    return (
      <span class="cut">
        <span class="cut-head">{text}</span>
      </span>
    );
  const tail = INNERMOST.exec(text)?.[1]?.length ?? TAIL + (CUT_WORD.exec(text)?.[1]?.length ?? 0);
  const at = between(text, text.length - tail);
  return (
    <span class="cut">
      <span class="cut-head">{text.slice(0, at)}</span>
      <span class="cut-tail">{text.slice(at)}</span>
    </span>
  );
}
