/** One bar of parts that add up, with the name, time and share of each. */
import { ratioText, timeText } from "../format/units";

export interface StackPart {
  readonly id: string;
  readonly title: string;
  readonly colour: string;
  readonly meaning: string;
  /** Null if it was not measured. */
  readonly ns: number | null;
}

interface Props {
  readonly parts: readonly StackPart[];
  readonly total: number;
  /** Shows only the shares, because the times are sums over devices. */
  readonly shares?: boolean;
}

export function StackedBar({ parts, total, shares = false }: Props) {
  const drawn = parts.filter((one) => (one.ns ?? 0) > 0);
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
      <ul class="legend figures">
        {parts.map((one) => (
          <li key={one.id} title={one.meaning} class={one.ns ? "" : "muted"}>
            {one.ns === null ? (
              <span class="swatch unmeasured" />
            ) : (
              <span class="swatch" style={{ background: `var(${one.colour})` }} />
            )}
            <span>{one.title}</span>
            <span class="figure-values">
              {one.ns === null ? (
                "not recorded"
              ) : one.ns === 0 ? (
                "0"
              ) : shares ? (
                <b>{ratioText(one.ns / total)}</b>
              ) : (
                <>
                  <b>{timeText(one.ns)}</b> <span class="muted">{ratioText(one.ns / total)}</span>
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
