/** Columns side by side, each a stack: a step each, or a rank. */
import { ratioText, timeText } from "../format/units";

export interface ChartColumn {
  readonly name: string;
  readonly parts: readonly { readonly title: string; readonly colour: string; readonly value: number }[];
  /** Why it does not count, in words; it is drawn pale. */
  readonly aside?: string | undefined;
}

interface Props {
  readonly columns: readonly ChartColumn[];
  readonly label: string;
  readonly height: number;
  /** A line across all columns. */
  readonly mean?: number | undefined;
}

const WIDTH = 1000;
const MOST_NAMES = 24;

export function ColumnsChart({ columns, label, height, mean }: Props) {
  const sums = columns.map((one) => one.parts.reduce((sum, part) => sum + part.value, 0));
  const top = Math.max(...sums, mean ?? 0) || 1;
  const slot = WIDTH / columns.length;
  const gap = Math.min(6, slot * 0.15);
  const every = Math.ceil(columns.length / MOST_NAMES);
  return (
    <figure class="columns-chart">
      <div class="axis" style={{ height: `${height}px` }} aria-hidden="true">
        <span>{timeText(top)}</span>
        <span>0</span>
      </div>
      <div class="plot">
        <svg
          viewBox={`0 0 ${WIDTH} ${height}`}
          preserveAspectRatio="none"
          style={{ height: `${height}px` }}
          role="img"
          aria-label={label}
        >
          {columns.map((column, index) => {
            let below = 0;
            return (
              <g key={column.name} opacity={column.aside === undefined ? 1 : 0.4}>
                <title>{columnWords(column, sums[index] ?? 0)}</title>
                {column.parts.map((part) => {
                  const tall = (part.value / top) * height;
                  below += tall;
                  return (
                    <rect
                      key={part.title}
                      x={index * slot + gap / 2}
                      width={Math.max(slot - gap, 0.5)}
                      y={height - below}
                      height={tall}
                      style={{ fill: `var(${part.colour})` }}
                    />
                  );
                })}
              </g>
            );
          })}
          {mean !== undefined && (
            <line
              x1="0"
              x2={WIDTH}
              y1={height - (mean / top) * height}
              y2={height - (mean / top) * height}
              class="mean"
            />
          )}
        </svg>
        <div class="names" aria-hidden="true">
          {columns.map((one, index) => (
            <span key={one.name}>{index % every === 0 ? one.name : ""}</span>
          ))}
        </div>
      </div>
    </figure>
  );
}

function columnWords(column: ChartColumn, sum: number): string {
  const parts = column.parts
    .filter((one) => one.value > 0)
    .map((one) => `${one.title} ${timeText(one.value)} (${ratioText(one.value / sum)})`);
  const aside = column.aside === undefined ? [] : [column.aside];
  return [`${column.name}: ${timeText(sum)}`, ...parts, ...aside].join("\n");
}
