/** A map over ranks and steps: its lines and columns in order, and the range of its scale. */
import type { Row } from "../source/source";

export interface RankMap {
  readonly ranks: readonly number[];
  readonly steps: readonly number[];
  /** By `rank step`: the row of that cell. */
  readonly cells: ReadonlyMap<string, Row>;
  readonly low: number;
  readonly high: number;
  readonly median: number;
}

/** As in the terminal: with a range below this part of the median, noise would look like a pattern. */
const LEAST_REACH = 0.1;

export function mapOf(rows: readonly Row[]): RankMap {
  const numbers = (name: string) => [...new Set(rows.map((row) => Number(row[name])))].sort((a, b) => a - b);
  const counted = rows.filter((row) => row.counted !== false);
  const values = (counted.length > 0 ? counted : rows)
    .flatMap((row) => (typeof row.value_ns === "number" ? [row.value_ns] : []))
    .sort((a, b) => a - b);
  const low = values[0] ?? 0;
  const half = values.length / 2;
  const median = ((values[Math.ceil(half) - 1] ?? low) + (values[Math.floor(half)] ?? low)) / 2;
  return {
    ranks: numbers("rank"),
    steps: numbers("step"),
    cells: new Map(rows.map((row) => [`${row.rank} ${row.step}`, row])),
    low,
    high: Math.max(values.at(-1) ?? low, low + LEAST_REACH * median),
    median,
  };
}
