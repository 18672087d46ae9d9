/** Positions of a histogram's bins, whose durations grow geometrically. */
import type { Row } from "../source/source";

export interface Bin {
  readonly row: Row;
  /** Its edges and height, each from 0 to 1. */
  readonly from: number;
  readonly to: number;
  readonly tall: number;
}

export interface Histogram {
  readonly bins: readonly Bin[];
  /** From the first edge to the last (ns). */
  readonly first: number;
  readonly last: number;
  /** The position of a duration, from 0 to 1; null outside of the bins. */
  readonly at: (ns: number) => number | null;
}

/** Replaces 0, which a geometric scale cannot show (ns). */
const NONE = 0.5;

/** Makes the histogram of one name's rows of `durations`. */
export function histogram(rows: readonly Row[]): Histogram {
  const first = Math.min(...rows.map((row) => Number(row.from_ns)));
  const last = Math.max(...rows.map((row) => Number(row.to_ns)));
  const most = Math.max(...rows.map((row) => Number(row.count)));
  const place = (ns: number) => Math.log(Math.max(ns, NONE));
  const long = place(last) - place(first) || 1;
  const at = (ns: number) => (place(ns) - place(first)) / long;
  return {
    bins: rows.map((row) => ({
      row,
      from: at(Number(row.from_ns)),
      to: at(Number(row.to_ns)),
      tall: Number(row.count) / most,
    })),
    first,
    last,
    at: (ns) => (ns >= first && ns <= last ? at(ns) : null),
  };
}

/** Durations at equal distances, for the labels below. */
export function ticks({ first, last }: Histogram, most: number): number[] {
  const low = Math.max(first, NONE);
  return Array.from({ length: most + 1 }, (_, place) => low * (last / low) ** (place / most));
}
