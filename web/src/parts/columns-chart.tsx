/** Stacked columns side by side: one per step or rank. */
import { ratioText, tickText, timeText } from "../format/units";
import { Walk } from "./walk";
import { useWidth } from "./width";

export interface ChartColumn {
  readonly name: string;
  readonly parts: readonly { readonly title: string; readonly colour: string; readonly value: number }[];
  /** What else it stands for, in words. */
  readonly of?: string | undefined;
  /** Why it does not count, in words; it is drawn pale. */
  readonly aside?: string | undefined;
  /** Its link. */
  readonly href?: string | undefined;
}

interface Props {
  readonly columns: readonly ChartColumn[];
  readonly label: string;
  readonly height: number;
  /** A line across all columns. */
  readonly mean?: number | undefined;
  /** The largest value of a scale that several charts share; by default this chart's own. */
  readonly reach?: number | undefined;
}

const WIDTH = 1000;
/** Width of a character in a name, and of the space between two names, in pixels. */
const LETTER = 6;
const SPACE = 8;
/** The most that one column takes, in per cent of the width. */
const WIDEST = 25;

export function ColumnsChart({ columns, label, height, mean, reach }: Props) {
  const [place, width] = useWidth();
  const sums = columns.map((one) => one.parts.reduce((sum, part) => sum + part.value, 0));
  const top = reach ?? (Math.max(...sums, mean ?? 0) || 1);
  const slot = WIDTH / columns.length;
  const gap = slot * width < 4 * WIDTH ? 0 : Math.min(6, slot * 0.15);
  const longest = Math.max(...columns.map((one) => one.name.length), 1);
  // Only this many have room for a name; the last ones share the rest, and may have none.
  const every = Math.ceil((columns.length * (longest * LETTER + SPACE)) / Math.max(width, 1));
  const marks = columns.map((one, index) => ({ words: columnWords(one, sums[index] ?? 0), href: one.href }));
  return (
    <figure class="columns-chart" style={{ "--tall": `${height}px` }}>
      <div class="axis" aria-hidden="true">
        {ticks(top).map((tick) => (
          <span key={tick} style={{ bottom: `${(100 * tick) / top}%` }}>
            {tick === 0 ? "0" : tickText(tick, "ns")}
          </span>
        ))}
      </div>
      <div class="plot" ref={place} style={{ maxWidth: `${Math.min(100, WIDEST * columns.length)}%` }}>
        <Walk label={label} marks={marks}>
          {(at) => (
            <svg viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" aria-hidden="true">
              {ticks(top).map((tick) => (
                <line
                  key={tick}
                  x1="0"
                  x2={WIDTH}
                  y1={height - (tick / top) * height}
                  y2={height - (tick / top) * height}
                  class="tick"
                />
              ))}
              {columns.map((column, index) => {
                let below = 0;
                const { href } = column;
                return (
                  // biome-ignore lint/a11y/noStaticElementInteractions: Enter goes there, too
                  <g
                    key={column.name}
                    class={`${href === undefined ? "" : "door"}${index === at ? " at" : ""}`}
                    opacity={column.aside === undefined ? 1 : 0.4}
                    onClick={href === undefined ? undefined : () => location.assign(href)}
                  >
                    <title>{marks[index]?.words}</title>
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
                <path class="mean" d={`M0 ${height - (mean / top) * height}H${WIDTH}`} />
              )}
            </svg>
          )}
        </Walk>
        <div class={every > 1 ? "names some" : "names"} aria-hidden="true">
          {columns.map((one, index) =>
            index % every > 0 || (index > 0 && index + every > columns.length) ? null : (
              <span key={one.name} style={{ width: `${(100 * every) / columns.length}%` }}>
                {one.name}
              </span>
            ),
          )}
        </div>
      </div>
    </figure>
  );
}

/** Two to five round values up to the highest. */
function ticks(top: number): number[] {
  const power = 10 ** Math.floor(Math.log10(top));
  const step = [0.2, 0.5, 1, 2].map((one) => one * power).find((one) => top / one < 5) ?? power;
  const count = Math.floor(top / step + 1e-9);
  return Array.from({ length: count + 1 }, (_, place) => place * step);
}

function columnWords(column: ChartColumn, sum: number): string {
  const parts = column.parts
    .filter((one) => one.value > 0)
    .map((one) => `${one.title} ${timeText(one.value)} (${ratioText(one.value / sum)})`);
  const more = [column.of, column.aside].filter((one) => one !== undefined);
  return [`${column.name}: ${timeText(sum)}`, ...parts, ...more].join("\n");
}
