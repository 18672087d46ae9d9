/** Arithmetic of time in pixels: zooming, moving, tiles, and the ticks of the axis. */

import type { Layout } from "../source/timeline";

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** The closest zoom: the least number of ns drawn. */
export const SHORTEST = 50;

/** Limits a range to a drawable length inside the recording, with some margin. */
export function within(range: Range, bounds: Range): Range {
  const all = Math.max(bounds.to - bounds.from, SHORTEST);
  const room = all * 0.02;
  const length = Math.min(Math.max(range.to - range.from, SHORTEST), all + 2 * room);
  const middle = (range.from + range.to) / 2;
  const from = Math.min(
    Math.max(middle - length / 2, bounds.from - room),
    Math.max(bounds.to, bounds.from + SHORTEST) + room - length,
  );
  return { from, to: from + length };
}

/** The range scaled by `factor`, with `at` at the same place. */
export function zoomed(range: Range, factor: number, at: number, bounds: Range): Range {
  const length = Math.max((range.to - range.from) * factor, SHORTEST);
  const share = (at - range.from) / (range.to - range.from);
  return within({ from: at - share * length, to: at + (1 - share) * length }, bounds);
}

export function moved(range: Range, by: number, bounds: Range): Range {
  return within({ from: range.from + by, to: range.to + by }, bounds);
}

/** A range with an interval in its middle that fills most of it. */
export function around(from: number, to: number, bounds: Range): Range {
  const room = Math.max((to - from) * 0.1, SHORTEST / 4);
  return within({ from: from - room, to: to + room }, bounds);
}

/** The level of tiles whose bins are at most a pixel. */
export function levelOf(range: Range, width: number): number {
  return Math.max(0, Math.floor(Math.log2((range.to - range.from) / Math.max(width, 1))));
}

/** The tiles of a level that a range overlaps and that contain part of the recording. */
export function tilesOf(
  range: Range,
  level: number,
  { bins, start_ns, end_ns }: Pick<Layout, "bins" | "start_ns" | "end_ns">,
): number[] {
  const size = bins * 2 ** level;
  const first = Math.floor(Math.max(range.from, start_ns) / size);
  const last = Math.floor(Math.min(range.to, end_ns) / size);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => first + place);
}

export interface Tick {
  readonly at: number;
  readonly text: string;
}

/** Ticks at round times, and their distance. */
export function ticks(
  range: Range,
  width: number,
): { readonly step: number; readonly marks: readonly Tick[] } {
  const least = ((range.to - range.from) / Math.max(width, 1)) * 110;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least) ?? 10 * power;
  const marks: Tick[] = [];
  for (let at = Math.ceil(range.from / step) * step; at <= range.to; at += step) {
    marks.push({ at, text: momentText(at, step, Math.max(Math.abs(range.from), Math.abs(range.to))) });
  }
  return { step, marks };
}

/** A time with enough digits to tell ticks apart, in the unit of the largest: `1.234 56 s`. */
export function momentText(at: number, step: number, most = Math.abs(at)): string {
  if (at === 0) return "0";
  const [size, unit] = most >= 1e9 ? [1e9, "s"] : most >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.min(9, Math.max(0, Math.ceil(Math.log10(size / step))));
  return `${(at / size).toFixed(digits)} ${unit}`;
}
