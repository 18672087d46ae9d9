/** One bar whose parts add up, with what each part is, its time and its share. */
import { ratioText, timeText } from "../format/units";

export interface StackPart {
  readonly id: string;
  readonly title: string;
  readonly colour: string;
  readonly meaning: string;
  /** Null where it was not measured. */
  readonly ns: number | null;
}

interface Props {
  readonly parts: readonly StackPart[];
  readonly total: number;
}

export function StackedBar({ parts, total }: Props) {
  const drawn = parts.filter((one) => (one.ns ?? 0) > 0);
  const unmeasured = parts.filter((one) => one.ns === null);
  const none = parts.filter((one) => one.ns === 0);
  return (
    <div class="stack">
      <div class="stack-bar" aria-hidden="true">
        {drawn.map((one) => (
          <span
            key={one.id}
            title={`${one.title}: ${timeText(one.ns ?? 0)}, ${ratioText((one.ns ?? 0) / total)}: ${one.meaning}`}
            style={{ flexGrow: (one.ns ?? 0) / total, background: `var(${one.colour})` }}
          />
        ))}
      </div>
      <ul class="legend">
        {drawn.map((one) => (
          <li key={one.id} title={one.meaning}>
            <span class="swatch" style={{ background: `var(${one.colour})` }} />
            <span>{one.title}</span>
            <b>{timeText(one.ns ?? 0)}</b>
            <span class="muted">{ratioText((one.ns ?? 0) / total)}</span>
          </li>
        ))}
      </ul>
      <p class="muted small">
        {none.length > 0 && <>No time in {none.map((one) => one.title).join(", ")}. </>}
        {unmeasured.length > 0 && (
          <>
            <span class="swatch unmeasured" /> Not recorded: {unmeasured.map((one) => one.title).join(", ")}.
          </>
        )}
      </p>
    </div>
  );
}
