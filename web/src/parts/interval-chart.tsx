/** Values as bars from 0, with whiskers for known intervals. */
import { numberText } from "../format/units";
import { type Interval, reach } from "../table/intervals";
import { Cut } from "./cut";

interface Props {
  readonly rows: readonly Interval[];
  readonly unit: string;
  readonly label: string;
  /** Whether values are differences. */
  readonly signed?: boolean;
}

export function IntervalChart({ rows, unit, label, signed = false }: Props) {
  const { low, high } = reach(rows, signed);
  const at = (value: number) => (100 * (value - low)) / (high - low);
  return (
    <ol class="intervals" aria-label={label}>
      {rows.map((row, place) => {
        const [from, to] = [row.low ?? row.value, row.high ?? row.value];
        const words = `${row.name}: ${numberText(row.value, unit)}, ${numberText(from, unit)} to ${numberText(to, unit)}`;
        return (
          <li key={place} title={[words, row.beside].filter(Boolean).join("; ")}>
            <span class="bar-name">
              <Cut text={row.name} />
            </span>
            <span class="interval" aria-hidden="true">
              <span
                class="interval-bar"
                style={{ left: `${at(Math.min(0, row.value))}%`, width: `${at(low + Math.abs(row.value))}%` }}
              />
              {(row.low !== null || row.high !== null) && (
                <span
                  class={from < low ? "whisker beyond" : "whisker"}
                  style={{
                    left: `${at(Math.max(low, from))}%`,
                    width: `${at(to) - at(Math.max(low, from))}%`,
                  }}
                />
              )}
            </span>
            <span class="bar-value">
              {signed && row.value > 0 && "+"}
              {numberText(row.value, unit)}
            </span>
            <span class="muted small">{row.beside}</span>
          </li>
        );
      })}
    </ol>
  );
}
