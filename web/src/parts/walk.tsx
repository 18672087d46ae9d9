/** The marks of a chart for the keyboard: arrow keys walk over them, Enter goes where one leads, Escape lets go. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface Mark {
  /** All of it, in lines. */
  readonly words: string;
  /** Where a press leads. */
  readonly href?: string | undefined;
}

interface Props {
  readonly marks: readonly Mark[];
  /** Marks in a line, of a chart that has several lines. */
  readonly across?: number;
  readonly label: string;
  /** Draws them; the number is that of the one to be marked, or -1. */
  readonly children: (at: number) => ComponentChildren;
}

export function Walk({ marks, across = 1, label, children }: Props) {
  const [chosen, setChosen] = useState(-1);
  const at = chosen < marks.length ? chosen : -1;
  const mark = marks[at];
  const walk = (event: KeyboardEvent) => {
    const steps: Readonly<Record<string, number>> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: across,
      ArrowUp: -across,
      Home: -at,
      End: marks.length - 1 - at,
    };
    const step = steps[event.key];
    if (step !== undefined) {
      const next = at < 0 && event.key !== "End" ? 0 : at + step;
      if (marks[next] !== undefined) setChosen(next);
    } else if (event.key === "Escape") setChosen(-1);
    else if (event.key === "Enter" && mark?.href !== undefined) location.assign(mark.href);
    else return;
    event.preventDefault();
  };
  return (
    <div class="walk" onFocusOut={() => setChosen(-1)}>
      <div
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys read it
        tabIndex={0}
        role="img"
        aria-label={`${label}. Arrow keys walk over it.`}
        onKeyDown={walk}
      >
        {children(at)}
      </div>
      <p class="told" aria-live="polite">
        {mark?.words}
      </p>
    </div>
  );
}
