/** A name that loses its middle where it is too long: its start says what it is, its end sets it apart. */
const TAIL = 16;
const SHORT = 24;

export function Cut({ text }: { readonly text: string }) {
  if (text.length <= SHORT) return <span class="cut">{text}</span>;
  return (
    <span class="cut">
      <span class="cut-head">{text.slice(0, -TAIL)}</span>
      <span class="cut-tail">{text.slice(-TAIL)}</span>
    </span>
  );
}
