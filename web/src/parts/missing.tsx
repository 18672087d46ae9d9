/** What stands where there is nothing to show: why, what to do, and a way to ask again where that may help. */
import type { ComponentChildren } from "preact";

interface Props {
  readonly message: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly again?: (() => void) | undefined;
  /** What a screen reader tells at once. */
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
