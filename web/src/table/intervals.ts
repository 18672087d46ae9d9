/** Values with their intervals, and a common scale. */
import type { Row } from "../source/source";

export interface Interval {
  readonly name: string;
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  /** A further note, as in `13 measurements`. */
  readonly beside: string;
}

export interface Columns {
  readonly value: string;
  readonly low?: string;
  readonly high: string;
}

export function intervals(
  rows: readonly Row[],
  columns: Columns,
  name: (row: Row) => string,
  beside: (row: Row) => string,
): Interval[] {
  const at = (row: Row, column: string | undefined) => {
    const value = column === undefined ? null : row[column];
    return typeof value === "number" ? value : null;
  };
  return rows.flatMap((row) => {
    const value = at(row, columns.value);
    if (value === null) return [];
    const [low, high] = [at(row, columns.low), at(row, columns.high)];
    return [{ name: name(row), value, low, high, beside: beside(row) }];
  });
}

/**
 * The scale from 0 to the farthest end. Differences may be below 0; times are not, even if the interval of
 * a few measurements is.
 */
export function reach(all: readonly Interval[], signed: boolean): { low: number; high: number } {
  const values = all.flatMap((one) => [one.value, one.low ?? one.value, one.high ?? one.value]);
  const low = Math.min(0, ...(signed ? values : all.map((one) => one.value)));
  const high = Math.max(0, ...values);
  return { low, high: high > low ? high : low + 1 };
}
