/** Rows of many steps as few: of each so many in a row the slowest, so that none that stands out is lost. */

export interface Timed {
  readonly total_ns?: number | null;
  /** Why no mean counts it; empty where one does. */
  readonly left_out?: string | null;
}

/** What one column stands for: the slowest of its rows, and the first and the last of them. */
export interface Slowest<R> {
  readonly row: R;
  readonly first: R;
  readonly last: R;
  readonly count: number;
}

/** The rows in at most `most` runs of equal length; of a run's rows that count, if any do, the slowest. */
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
