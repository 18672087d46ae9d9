/** The order of tracks from the top: pinned ones first, then rank by rank. */
import type { Layout, Track } from "../source/timeline";

export const LANE = 17;
const HEAD = 24;
const LEAST = 22;
const CURVE = 46;
const FOLDED = 22;

export interface Row {
  /** The track's id, or `rank 0` for the head of a rank. */
  readonly id: string;
  readonly track: Track | null;
  readonly rank: number;
  readonly title: string;
  readonly y: number;
  readonly height: number;
  /** The number of drawn lanes: one if it is folded. */
  readonly lanes: number;
  readonly folded: boolean;
  readonly pinned: boolean;
}

export interface Rows {
  readonly pinned: readonly Row[];
  readonly pinnedHeight: number;
  readonly rows: readonly Row[];
  readonly height: number;
}

export interface Shown {
  /** Tracks and ranks whose fold differs from the default. */
  readonly turned: ReadonlySet<string>;
  readonly pins: readonly string[];
  /** The numbers of tracks' lanes known so far. */
  readonly lanes: ReadonlyMap<string, number>;
}

export function rankId(rank: number): string {
  return `rank ${rank}`;
}

export function rowsOf(layout: Layout, shown: Shown): Rows {
  const pinned: Row[] = [];
  const rows: Row[] = [];
  let top = 0;
  for (const id of shown.pins) {
    for (const { rank, title, tracks } of layout.ranks) {
      const track = tracks.find((one) => one.id === id);
      if (track === undefined) continue;
      const own = layout.ranks.length > 1 ? `${title}: ${track.title}` : track.title;
      const row = trackRow(track, rank, own, top, false, true, shown);
      pinned.push(row);
      top += row.height;
    }
  }
  let y = 0;
  layout.ranks.forEach(({ rank, title, tracks }, place) => {
    const folded = place > 0 !== shown.turned.has(rankId(rank));
    rows.push({
      id: rankId(rank),
      track: null,
      rank,
      title,
      y,
      height: HEAD,
      lanes: 0,
      folded,
      pinned: false,
    });
    y += HEAD;
    // A folded rank keeps the tracks that show how the ranks relate.
    const kept = folded
      ? tracks.filter((one) => one.kind === "steps" || one.kind === "communication")
      : tracks;
    const stays = folded && kept.length === 0 ? tracks.slice(0, 1) : kept;
    for (const track of stays) {
      if (shown.pins.includes(track.id)) continue;
      const row = trackRow(
        track,
        rank,
        track.title,
        y,
        folded || track.dull !== shown.turned.has(track.id),
        false,
        shown,
      );
      rows.push(row);
      y += row.height;
    }
  });
  return { pinned, pinnedHeight: top, rows, height: y };
}

function trackRow(
  track: Track,
  rank: number,
  title: string,
  y: number,
  folded: boolean,
  pinned: boolean,
  shown: Shown,
): Row {
  const isCurve = track.kind === "counter" || track.kind === "memory";
  const lanes = folded || isCurve ? 1 : (shown.lanes.get(track.id) ?? track.lanes);
  const height = folded ? FOLDED : isCurve ? CURVE : Math.max(LEAST, lanes * LANE + 5);
  return { id: track.id, track, rank, title, y, height, lanes, folded, pinned };
}

/** Whether a track can be unfolded: it has several lanes, or is a curve. */
export function folds(row: Row, shown: Shown): boolean {
  if (row.track === null) return true;
  const { kind, lanes, id } = row.track;
  return kind === "counter" || kind === "memory" || (shown.lanes.get(id) ?? lanes) > 1;
}

/** The row and lane at a height below the axis. */
export function rowAt(
  rows: Rows,
  y: number,
  scroll: number,
): { readonly row: Row; readonly lane: number } | undefined {
  const inPinned = y < rows.pinnedHeight;
  const at = inPinned ? y : y - rows.pinnedHeight + scroll;
  const row = (inPinned ? rows.pinned : rows.rows).find((one) => at >= one.y && at < one.y + one.height);
  if (row === undefined) return undefined;
  return { row, lane: Math.min(Math.max(row.lanes - 1, 0), Math.floor((at - row.y - 2) / laneHeight(row))) };
}

export function laneHeight(row: Row): number {
  return row.lanes > 1 ? LANE : row.height - 5;
}

/** The row's position below the axis at the current scroll position. */
export function topOf(rows: Rows, row: Row, scroll: number): number {
  return row.pinned ? row.y : row.y - scroll + rows.pinnedHeight;
}

/** The scroll position that makes a track visible; unchanged if it is. */
export function scrollTo(rows: Rows, id: string, lane: number, scroll: number, height: number): number {
  const row = rows.rows.find((one) => one.id === id);
  if (row === undefined) return scroll;
  const room = height - rows.pinnedHeight;
  const y = row.y + lane * laneHeight(row);
  if (y >= scroll && y + LANE + 4 <= scroll + room) return scroll;
  return Math.max(0, Math.min(y - room / 3, rows.height - room));
}
