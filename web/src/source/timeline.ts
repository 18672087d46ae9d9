/** What both sources answer about a recording's timeline. Times are ns since the start of the run. */
import type { Value } from "./source";

export interface Track {
  /** Its name in addresses. */
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
  /** At least so many lanes; a tile says how many there are. */
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
  /** Of a tile. */
  readonly bins: number;
  /** What events are, by number. */
  readonly kinds: readonly string[];
  /** What to show first; null for all. */
  readonly first: Stretch | null;
  /** What the recording has in the place of events, where it has none. */
  readonly missing: string;
  /** When the job compiled or warmed up. */
  readonly warm_up: readonly Stretch[];
  readonly ranks: readonly {
    readonly rank: number;
    readonly title: string;
    readonly tracks: readonly Track[];
  }[];
  /** Of a report: the only stretch that it holds, and what it leaves out, in words. */
  readonly held?: Stretch;
  readonly left_out?: string;
}

/** The blocks of a track in a tile, as columns: lane by lane, in order of time. */
export interface Blocks {
  readonly rows: number;
  readonly lane: readonly number[];
  /** From the tile's start (ns). */
  readonly start: readonly number[];
  readonly end: readonly number[];
  /** How many events it stands for, and their summed time. */
  readonly count: readonly number[];
  readonly busy: readonly number[];
  /** Of the longest of them. */
  readonly name: readonly number[];
  readonly kind: readonly number[];
  readonly id: readonly number[];
}

/** A counter in a tile. The row of the value before it has a count of 0. */
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
  readonly longest_ns: number;
}

export interface Measured {
  readonly rows: readonly MeasuredRow[];
  /** How many names there are in all. */
  readonly names: number;
}

export interface TimelineAnswers {
  readonly layout: Layout;
  readonly tile: Tile;
  readonly event: EventDetails;
  readonly find: Found;
  readonly range: Measured;
}
