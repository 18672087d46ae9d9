/** The timeline data of both sources. Times are ns since the start of the run. */
import type { Value } from "./source";

export interface Track {
  /** Its id in addresses. */
  readonly id: string;
  readonly kind:
    | "steps"
    | "communication"
    | "overlap"
    | "stream"
    | "marks"
    | "modules"
    | "thread"
    | "counter"
    | "memory";
  readonly title: string;
  /** The least number of lanes; a tile has the exact number. */
  readonly lanes: number;
  readonly events: number;
  /** Folded at first. */
  readonly dull: boolean;
  readonly unit: string;
}

export type Stretch = readonly [start: number, end: number];

export interface Layout {
  readonly start_ns: number;
  readonly end_ns: number;
  /** Bins of a tile. */
  readonly bins: number;
  /** Kinds of events, by number. */
  readonly kinds: readonly string[];
  /** The interval to show first; null for all. */
  readonly first: Stretch | null;
  /** What a recording without events has instead. */
  readonly missing: string;
  /** Intervals in which the job compiled or warmed up. */
  readonly warm_up: readonly Stretch[];
  readonly ranks: readonly {
    readonly rank: number;
    readonly title: string;
    readonly tracks: readonly Track[];
  }[];
  /** In a report: the only interval that it holds, and a note on what it leaves out. */
  readonly held?: Stretch;
  readonly left_out?: string;
}

/** The blocks of a track in a tile, as columns: lane by lane, by time. */
export interface Blocks {
  readonly rows: number;
  readonly lane: readonly number[];
  /** From the tile's start (ns). */
  readonly start: readonly number[];
  readonly end: readonly number[];
  /** The number of events in it, and their summed time. */
  readonly count: readonly number[];
  readonly busy: readonly number[];
  /** Those of the longest event. */
  readonly name: readonly number[];
  readonly kind: readonly number[];
  readonly id: readonly number[];
}

/** A counter in a tile. The row of the last value before it has a count of 0. */
export interface Curve {
  readonly rows: number;
  readonly start: readonly number[];
  readonly count: readonly number[];
  readonly low: readonly number[];
  readonly high: readonly number[];
  readonly last: readonly number[];
}

export interface Tile {
  readonly names: readonly string[];
  readonly tracks: Readonly<Record<string, Blocks | Curve>>;
}

/** Where an event is drawn. */
export interface Place {
  readonly track: string;
  readonly lane: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly id: number;
  readonly name: string;
  readonly kind: string;
}

export interface EventField {
  readonly title: string;
  readonly value: Value;
  readonly unit: string;
  readonly meaning: string;
}

export interface EventLink {
  readonly relation: string;
  readonly total: number;
  readonly places: readonly Place[];
}

export interface EventDetails {
  readonly name: string;
  readonly place: Place | null;
  readonly table: string;
  readonly fields: readonly EventField[];
  readonly links: readonly EventLink[];
}

export interface Found {
  readonly total: number;
  readonly number: number;
  readonly place: Place | null;
}

export interface MeasuredRow {
  readonly track: string;
  readonly name: string;
  readonly kind: string;
  readonly count: number;
  readonly total_ns: number;
  readonly max_ns: number;
}

export interface Measured {
  readonly rows: readonly MeasuredRow[];
  /** The number of all names. */
  readonly names: number;
}

export interface TimelineAnswers {
  readonly layout: Layout;
  readonly tile: Tile;
  readonly event: EventDetails;
  readonly find: Found;
  readonly range: Measured;
}
