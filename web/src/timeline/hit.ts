/** Finds the block at a position, and its neighbours. */
import type { Blocks, Layout, Place } from "../source/timeline";
import type { Range } from "./scale";
import type { Piece } from "./tiles";

/** The hovered or selected event, or a block of several. */
export interface Mark {
  readonly track: string;
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  readonly count: number;
  readonly busy: number;
  /** Those of the longest event. */
  readonly name: string;
  readonly kind: string;
  readonly id: number;
}

export function markOf(track: string, piece: Piece, place: number, layout: Layout): Mark {
  const blocks = piece.data as Blocks;
  const start = startOf(piece, layout.bins);
  return {
    track,
    lane: blocks.lane[place] ?? 0,
    from: start + (blocks.start[place] ?? 0),
    to: start + (blocks.end[place] ?? 0),
    count: blocks.count[place] ?? 1,
    busy: blocks.busy[place] ?? 0,
    name: piece.names[blocks.name[place] ?? -1] ?? "",
    kind: layout.kinds[blocks.kind[place] ?? -1] ?? "other",
    id: blocks.id[place] ?? 0,
  };
}

export function markAt(place: Place): Mark {
  const { start_ns, end_ns, ...rest } = place;
  return { ...rest, from: start_ns, to: end_ns, count: 1, busy: end_ns - start_ns };
}

export function startOf(piece: Piece, bins: number): number {
  return piece.index * bins * 2 ** piece.level;
}

/** The block of a lane at a moment, or else the nearest one within `slack` ns; -1 without one. */
export function blockAt(piece: Piece, lane: number, at: number, slack: number, bins: number): number {
  const { start, end } = piece.data as Blocks;
  const wanted = at - startOf(piece, bins);
  const first = piece.lanes[lane] ?? 0;
  const last = piece.lanes[lane + 1] ?? first;
  let low = first;
  let high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((start[middle] ?? 0) <= wanted) low = middle + 1;
    else high = middle;
  }
  let best = -1;
  let least = slack;
  // On a lane with overlapping events, the one that contains the moment may start earlier.
  for (let place = Math.max(first, low - 8); place < Math.min(last, low + 1); place++) {
    const far = Math.max((start[place] ?? 0) - wanted, wanted - (end[place] ?? 0), 0);
    if (far <= least) {
      best = place;
      least = far;
    }
  }
  return best;
}

/** The first block that starts after a moment, or the last before it, in ordered pieces; undefined without one. */
export function blockBeside(
  pieces: readonly Piece[],
  lane: number,
  at: number,
  forward: boolean,
  bins: number,
): readonly [Piece, number] | undefined {
  let found: readonly [Piece, number] | undefined;
  let best = forward ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  for (const piece of pieces) {
    const blocks = piece.data as Blocks;
    const base = startOf(piece, bins);
    for (let place = piece.lanes[lane] ?? 0; place < (piece.lanes[lane + 1] ?? 0); place++) {
      const start = base + (blocks.start[place] ?? 0);
      if (forward ? start > at && start < best : start < at && start > best) {
        best = start;
        found = [piece, place];
      }
    }
  }
  return found;
}

/** A drag in progress: where it started, and what was shown then. */
export interface Drag {
  readonly x: number;
  readonly y: number;
  readonly range: Range;
  readonly scroll: number;
  readonly measures: boolean;
  moved: boolean;
}
