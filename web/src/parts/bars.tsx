/** The largest items of a list as bars, with a summary of the rest. */

import { numberText, ratioText } from "../format/units";
import { Cut } from "./cut";

export interface Bar {
  readonly name: string;
  readonly full: string;
  readonly value: number;
  readonly href?: string | undefined;
  readonly beside?: string | undefined;
}

interface Props {
  readonly bars: readonly Bar[];
  readonly unit: string;
  /** The sum of all bars, including those not drawn; null if they are not parts of a sum. */
  readonly total: number | null;
  readonly label: string;
}

export function Bars({ bars, unit, total, label }: Props) {
  const top = Math.max(...bars.map((one) => one.value), 0) || 1;
  return (
    <ol class={total || bars.some((one) => one.beside) ? "bars" : "bars shareless"} aria-label={label}>
      {bars.map((one) => (
        <li key={one.full} title={one.full}>
          <span class="bar-name" style={{ "--long": `${(100 * Math.max(0, one.value)) / top}%` }}>
            {one.href === undefined ? (
              <Cut text={one.name} />
            ) : (
              <a href={one.href}>
                <Cut text={one.name} />
              </a>
            )}
          </span>
          <span class="bar-value">{numberText(one.value, unit)}</span>
          <span class="bar-share muted">{total ? ratioText(one.value / total) : (one.beside ?? "")}</span>
        </li>
      ))}
    </ol>
  );
}
