/** A name that loses its middle where it is too long: its start says what it is, its end sets it apart. */
const TAIL = 16;
const SHORT = 24;

export function Cut({ text: written }: { readonly text: string }) {
  const text = written.replace(/\s/g, " "); // a line of a name would be a line of the page
  if (text.length <= SHORT) return <span class="cut">{text}</span>;
  return (
    <span class="cut">
      <span class="cut-head">{text.slice(0, -TAIL)}</span>
      <span class="cut-tail">{text.slice(-TAIL)}</span>
    </span>
  );
}
