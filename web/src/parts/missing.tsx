/** Replaces an empty view: says why, what to do, and offers a retry if that may help. */
import type { ComponentChildren } from "preact";

interface Props {
  readonly message: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly again?: (() => void) | undefined;
  /** Announced by screen readers at once. */
  readonly urgent?: boolean;
}

export function Missing({ message, hint, again, urgent = false }: Props) {
  return (
    <div class="empty" role={urgent ? "alert" : "status"}>
      <p>{message}</p>
      {hint !== undefined && hint !== "" && <p class="muted">{hint}</p>}
      {again !== undefined && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
