/** A name that loses its middle where it is too long: its start says what it is, its end sets it apart. */
const TAIL = 11;
const SHORT = 24;
/** Of a path the last part, if it is no longer than this. */
const INNERMOST = /^[\w.-]+\.([\w-]{1,26})$/;

export function Cut({ text: written }: { readonly text: string }) {
  const text = written.replace(/\s/g, " "); // a line of a name would be a line of the page
  if (text.length <= SHORT)
    return (
      <span class="cut">
        <span class="cut-head">{text}</span>
      </span>
    );
  const tail = INNERMOST.exec(text)?.[1]?.length ?? TAIL;
  return (
    <span class="cut">
      <span class="cut-head">{text.slice(0, -tail)}</span>
      <span class="cut-tail">{text.slice(-tail)}</span>
    </span>
  );
}
