/** A name that loses its middle where it is too long: its start says what it is, its end sets it apart. */
import { between, plain } from "../format/cut";

const TAIL = 11;
const SHORT = 24;
/** Of a path the last part, if it is no longer than this. */
const INNERMOST = /^[\w.-]+\.([\w-]{1,26})$/;
/** What a tail lacks of its first word, where that is little. */
const CUT_WORD = new RegExp(`\\s(\\S{1,4})\\S.{${TAIL - 1}}$`);

export function Cut({ text: written }: { readonly text: string }) {
  const text = plain(written).replace(/\s/g, " "); // a line of a name would be a line of the page
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
