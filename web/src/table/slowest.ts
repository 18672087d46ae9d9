/** Reduces many steps to few: keeps the slowest of adjacent rows, so that outliers stay. */

export interface Timed {
  readonly total_ns?: number | null;
  /** Why means leave it out; empty if they do not. */
  readonly left_out?: string | null;
}

/** The contents of one column: the slowest of its rows, and the first and last. */
export interface Slowest<R> {
  readonly row: R;
  readonly first: R;
  readonly last: R;
  readonly count: number;
}

/** Splits rows into at most `most` runs of equal length, and finds each run's slowest counted row, else its slowest. */
export function slowest<R extends Timed>(rows: readonly R[], most: number): Slowest<R>[] {
  const length = Math.max(1, Math.ceil(rows.length / most));
  const runs: Slowest<R>[] = [];
  for (let start = 0; start < rows.length; start += length) {
    const run = rows.slice(start, start + length);
    const counted = run.filter((one) => !one.left_out);
    const row = (counted.length > 0 ? counted : run).reduce((a, b) =>
      (b.total_ns ?? 0) > (a.total_ns ?? 0) ? b : a,
    );
    runs.push({ row, first: run[0] ?? row, last: run.at(-1) ?? row, count: run.length });
  }
  return runs;
}
