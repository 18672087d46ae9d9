/** The part of the timeline's state that is in the address, so that a link shows what its sender saw. */
import type { Row } from "../source/source";
import type { Stretch } from "../source/timeline";
import type { Column } from "../table/columns";

export interface Kept {
  readonly range: Stretch | null;
  /** The selected event: its track and number. */
  readonly at: { readonly track: string; readonly id: number } | null;
  readonly pins: readonly string[];
  readonly turned: readonly string[];
  readonly find: string;
  readonly measured: { readonly range: Stretch; readonly tracks: readonly string[] } | null;
  readonly hidesWarmUp: boolean;
  /** The rank to open, from a link in another view. */
  readonly rank: number | null;
}

const ENTRIES = ["from", "to", "at", "pins", "turned", "find", "measure", "warm", "rank"] as const;
type Entry = (typeof ENTRIES)[number];

export function keptIn(state: ReadonlyMap<string, string>): Kept {
  const range = stretch(state.get("from"), state.get("to"));
  const [, track = "", id = ""] = /^(.+):(-?\d+)$/.exec(state.get("at") ?? "") ?? [];
  const [from, to, tracks] = (state.get("measure") ?? "").split(":", 3);
  const measured = stretch(from, to);
  return {
    range,
    at: track === "" ? null : { track, id: Number(id) },
    pins: listed(state.get("pins")),
    turned: listed(state.get("turned")),
    find: state.get("find") ?? "",
    measured: measured === null ? null : { range: measured, tracks: listed(tracks) },
    hidesWarmUp: state.get("warm") === "hidden",
    rank: /^\d+$/.test(state.get("rank") ?? "") ? Number(state.get("rank")) : null,
  };
}

export function entriesOf(kept: Kept): Readonly<Record<Entry, string | null>> {
  const { range, at, measured } = kept;
  return {
    from: range === null ? null : String(Math.round(range[0])),
    to: range === null ? null : String(Math.round(range[1])),
    at: at === null ? null : `${at.track}:${at.id}`,
    pins: kept.pins.join(",") || null,
    turned: kept.turned.join(",") || null,
    find: kept.find || null,
    measure:
      measured === null ? null : `${measured.range.map(Math.round).join(":")}:${measured.tracks.join(",")}`,
    warm: kept.hidesWarmUp ? "hidden" : null,
    rank: kept.rank === null ? null : String(kept.rank),
  };
}

function stretch(from: string | undefined, to: string | undefined): Stretch | null {
  if (!from || !to) return null;
  const [a, b] = [Number(from), Number(to)];
  return Number.isFinite(a) && Number.isFinite(b) && b > a ? [a, b] : null;
}

function listed(text: string | undefined): string[] {
  return (text ?? "").split(",").filter((one) => one !== "");
}

/** A place on the timeline as another view knows it; without a time, the exact `name` is searched. */
export interface Spot {
  readonly from?: number | null | undefined;
  readonly to?: number | null | undefined;
  readonly name?: string | null | undefined;
  readonly rank?: number | null | undefined;
}

/** A search for an exact name; for a shortened one, for all names that start like it. */
export function searchFor(name: string): string {
  return name.endsWith("…") ? `${name.slice(0, -1)}*` : `"${name}"`;
}

/** The state of the address that shows a place on the timeline, for links from all views. */
export function spotState({ from, to, name, rank }: Spot): Readonly<Record<string, string>> {
  const state: Record<string, string> = {};
  if (typeof from === "number" && typeof to === "number" && to > from) {
    // With some room beside it, so that its edges are visible.
    const room = Math.round((to - from) / 20);
    state.from = String(from - room);
    state.to = String(to + room);
  }
  if (name) state.find = searchFor(name);
  if (typeof rank === "number" && Object.keys(state).length > 0) state.rank = String(rank);
  return state;
}

/** How long a row's subject lasts, if the row has a start. */
const LENGTHS = ["dur_ns", "window_ns", "total_ns"] as const;
/** Questions whose rows are about named events, besides those with a column of kernels. */
const OF_NAMES = new Set(["operators", "annotations", "api-summary", "gpu-summary", "gpu-trace"]);

/** The place on the timeline of a row of an answer; undefined without one. */
export function spotOf(question: string, columns: readonly Column[], row: Row): Spot | undefined {
  const of = typeof row.rank === "number" ? { rank: row.rank } : {};
  const from = row.start_ns;
  const length = LENGTHS.map((one) => row[one]).find((one) => typeof one === "number");
  const isMoment = columns.some((one) => one.name === "start_ns" && one.moment);
  if (isMoment && typeof from === "number" && typeof length === "number" && length > 0) {
    return { from, to: from + length, ...of };
  }
  const named = columns.find((one) => one.kernels) ?? (OF_NAMES.has(question) ? { name: "name" } : undefined);
  const name = named === undefined ? undefined : row[named.name];
  return typeof name === "string" && name !== "" ? { name, ...of } : undefined;
}
