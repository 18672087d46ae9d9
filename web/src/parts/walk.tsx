/** Keyboard access to a chart's marks: arrow keys move, Enter follows a link, Escape leaves. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface Mark {
  /** Its full text, in lines. */
  readonly words: string;
  /** The link that a press follows. */
  readonly href?: string | undefined;
}

interface Props {
  readonly marks: readonly Mark[];
  /** Marks per line, for a chart with several lines. */
  readonly across?: number;
  readonly label: string;
  /** Draws the marks; the number is that of the highlighted one, or -1. */
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
