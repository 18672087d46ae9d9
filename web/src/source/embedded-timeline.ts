/** A report's timeline, drawn from the events that the report holds. */

import { matcher } from "../table/rows";
import { curved, type Lane, merged, type PackedLane, sums, unpacked, type Values } from "../timeline/merge";
import { NoAnswer, type Parameters, type Value } from "./source";
import type {
  EventDetails,
  EventField,
  EventLink,
  Found,
  Layout,
  Measured,
  MeasuredRow,
  Place,
  Tile,
  TimelineAnswers,
} from "./timeline";

interface Texts {
  readonly texts: readonly string[];
  readonly codes: readonly (number | null)[];
}
type Told = Readonly<Record<string, readonly Value[] | Texts>>;
interface Described extends Omit<EventField, "value"> {
  readonly name: string;
}

/** The block `timeline_events` of a report, made by `timeline_data.py`. */
export interface TimelineEvents {
  readonly names: readonly string[];
  readonly tracks: Readonly<Record<string, { readonly lanes: readonly PackedLane[] } | Values>>;
  readonly tables: Readonly<Record<string, Readonly<Record<string, Told>>>>;
  readonly described: Readonly<Record<string, readonly Described[]>>;
}

const MOST_LINKS = 50;
const LONGEST_NAME = 160;

export class EmbeddedTimeline {
  readonly #layout: Layout;
  readonly #events: TimelineEvents;
  readonly #lanes = new Map<string, readonly Lane[]>();
  readonly #curves = new Map<string, Values>();

  constructor(layout: Layout, events: TimelineEvents) {
    this.#layout = layout;
    this.#events = events;
    for (const [id, track] of Object.entries(events.tracks ?? {})) {
      if ("lanes" in track) this.#lanes.set(id, track.lanes.map(unpacked));
      else this.#curves.set(id, { start: sums(track.start), value: track.value });
    }
  }

  answer<W extends keyof TimelineAnswers>(what: W, asked: Parameters): TimelineAnswers[W] {
    const answers: { readonly [K in keyof TimelineAnswers]: () => TimelineAnswers[K] } = {
      layout: () => this.#layout,
      tile: () => this.#tile(Number(asked.level), Number(asked.index), listed(asked.tracks)),
      event: () => this.#event(String(asked.track), Number(asked.id)),
      find: () =>
        this.#find(String(asked.name), asked.number ?? null, Number(asked.at ?? 0), asked.rank ?? null),
      range: () => this.#range(Number(asked.start), Number(asked.end), listed(asked.tracks)),
    };
    return answers[what]();
  }

  #tile(level: number, index: number, tracks: readonly string[]): Tile {
    const { bins } = this.#layout;
    const drawn = tracks.map((id) => {
      const curve = this.#curves.get(id);
      return [
        id,
        curve === undefined
          ? merged(this.#lanes.get(id) ?? [], level, index, bins)
          : curved(curve, level, index, bins),
      ] as const;
    });
    return { names: this.#events.names, tracks: Object.fromEntries(drawn) };
  }

  #place(track: string, lane: number, row: number): Place {
    const own = this.#lanes.get(track)?.[lane];
    return {
      track,
      lane,
      start_ns: own?.start[row] ?? 0,
      end_ns: own?.end[row] ?? 0,
      id: own?.id[row] ?? 0,
      name: this.#events.names[own?.name[row] ?? -1] ?? "",
      kind: this.#layout.kinds[own?.kind[row] ?? -1] ?? "other",
    };
  }

  /** Where an event is drawn, on one of a rank's event tracks, or on a given track. */
  #located(rank: number, id: number, only?: string): Place | null {
    const own = this.#layout.ranks.find((one) => one.rank === rank)?.tracks ?? [];
    const tracks = own.filter((one) => (only === undefined ? isOfEvents(one.kind) : one.id === only));
    for (const { id: track } of tracks) {
      for (const [lane, events] of (this.#lanes.get(track) ?? []).entries()) {
        const row = events.id.indexOf(id);
        if (row >= 0) return this.#place(track, lane, row);
      }
    }
    return null;
  }

  #event(track: string, id: number): EventDetails {
    const rank = this.#layout.ranks.find(({ tracks }) => tracks.some((one) => one.id === track));
    const place = rank === undefined ? null : this.#located(rank.rank, id, track);
    if (rank === undefined || place === null) throw new NoAnswer("This event is not in this report.");
    const tables = this.#events.tables[String(rank.rank)] ?? {};
    const isStep = place.kind === "step";
    for (const table of isStep ? ["step"] : ["device_event", "host_event"]) {
      const told = tables[table] ?? {};
      const row = numbers(told, isStep ? "id" : `${table}.id`).indexOf(id);
      if (row < 0) continue;
      const shown = isStep ? Object.keys(told).map(ofStep) : (this.#events.described[table] ?? []);
      const fields = shown.flatMap(({ name, ...rest }): EventField[] => {
        const value = toldOf(told, name, row);
        return value === null || name === "id" ? [] : [{ ...rest, value }];
      });
      const links = isStep ? [] : this.#links(rank.rank, tables, table, row, id);
      const full = toldOf(told, `${table}.name`, row);
      return { name: typeof full === "string" ? full : place.name, place, table, fields, links };
    }
    const value = place.end_ns - place.start_ns;
    const fields = [{ title: "duration", value, unit: "ns", meaning: "duration (ns)" }];
    return { name: place.name, place, table: "", fields, links: [] };
  }

  #links(
    rank: number,
    tables: Readonly<Record<string, Told>>,
    table: string,
    row: number,
    id: number,
  ): EventLink[] {
    const own = tables[table] ?? {};
    const named = (column: string) => {
      const value = toldOf(own, `${table}.${column}`, row);
      return typeof value === "number" ? [value] : [];
    };
    const those = (of: string, columns: readonly string[]) => {
      const told = tables[of] ?? {};
      const ids = numbers(told, `${of}.id`);
      const keys = columns.map((one) => numbers(told, `${of}.${one}`));
      return ids.flatMap((one, place) =>
        typeof one === "number" && keys.some((key) => key[place] === id) ? [one] : [],
      );
    };
    const related: readonly (readonly [string, readonly number[]])[] =
      table === "device_event"
        ? [
            ["launched by", named("launch_id")],
            ["operator", named("operator_id")],
          ]
        : [
            ["launched", those("device_event", ["launch_id", "operator_id"])],
            ["forward", named("forward_id")],
            ["backward", outermost(tables.host_event ?? {}, id)],
            ["called by", named("parent_id")],
          ];
    return related.flatMap(([relation, ids]) => {
      const places = ids
        .slice(0, MOST_LINKS)
        .flatMap((one) => this.#located(rank, one) ?? [])
        .sort((a, b) => a.start_ns - b.start_ns);
      return places.length === 0 ? [] : [{ relation, total: ids.length, places }];
    });
  }

  #find(pattern: string, number: Value, at: number, rank: Value): Found {
    const matches = matcher(cut(pattern));
    if (matches === null) throw new NoAnswer(`${pattern.trim()} is not a regular expression`);
    const found = this.#events.names.map((one) => matches(one));
    const hits: (readonly [number, string, number, number, number])[] = [];
    for (const { rank: of, tracks } of this.#layout.ranks) {
      for (const track of tracks.filter((one) => isOfEvents(one.kind))) {
        for (const [lane, events] of (this.#lanes.get(track.id) ?? []).entries()) {
          events.name.forEach((name, row) => {
            if (found[name]) hits.push([events.start[row] ?? 0, track.id, lane, row, of]);
          });
        }
      }
    }
    hits.sort((a, b) => a[0] - b[0]);
    if (hits.length === 0) return { total: 0, number: 0, place: null };
    const first = hits.findIndex(
      ([start, , , , of]) => start >= at && (typeof rank !== "number" || of === rank),
    );
    const which = (typeof number === "number" ? number : Math.max(first, 0)) % hits.length;
    const [, track, lane, row] = hits[which] ?? [0, "", 0, 0];
    return { total: hits.length, number: which, place: this.#place(track, lane, row) };
  }

  #range(from: number, to: number, tracks: readonly string[]): Measured {
    const rows = new Map<string, MeasuredRow>();
    for (const track of tracks) {
      for (const lane of this.#lanes.get(track) ?? []) {
        lane.start.forEach((start, row) => {
          const end = lane.end[row] ?? start;
          if (start >= to || !(end > from || start >= from)) return;
          const name = this.#events.names[lane.name[row] ?? -1] ?? "";
          const kind = this.#layout.kinds[lane.kind[row] ?? -1] ?? "other";
          const length = Math.min(end, to) - Math.max(start, from);
          const key = JSON.stringify([track, name, kind]);
          const before = rows.get(key);
          rows.set(key, {
            track,
            name,
            kind,
            count: (before?.count ?? 0) + 1,
            total_ns: (before?.total_ns ?? 0) + length,
            max_ns: Math.max(before?.max_ns ?? 0, length),
          });
        });
      }
    }
    return { rows: [...rows.values()].sort((a, b) => b.total_ns - a.total_ns), names: rows.size };
  }
}

function listed(value: Value | undefined): string[] {
  return String(value ?? "")
    .split(",")
    .filter((one) => one !== "");
}

function isOfEvents(kind: string): boolean {
  return kind === "thread" || kind === "stream" || kind === "marks";
}

function numbers(told: Told, name: string): readonly Value[] {
  const column = told[name];
  return column === undefined || "texts" in column ? [] : column;
}

function toldOf(told: Told, name: string, row: number): Value {
  const column = told[name];
  if (column === undefined) return null;
  if (!("texts" in column)) return column[row] ?? null;
  const code = column.codes[row];
  return code === null || code === undefined ? null : (column.texts[code] ?? null);
}

/** The events of an operator's backward that are not inside another one of it. */
function outermost(told: Told, id: number): number[] {
  const [ids, forward, parent] = ["id", "forward_id", "parent_id"].map((one) =>
    numbers(told, `host_event.${one}`),
  );
  const own = (ids ?? []).filter((_, row) => forward?.[row] === id);
  const some = new Set(own);
  return own.filter((one): one is number => {
    const above = parent?.[(ids ?? []).indexOf(one)] ?? null;
    return typeof one === "number" && !some.has(above);
  });
}

function ofStep(name: string): Described {
  const unit = name === "start_ns" || name === "end_ns" ? "moment" : "";
  return { name, title: name.replace(/_ns$/, "").replaceAll("_", " "), unit, meaning: "" };
}

/** A search for a quoted name, shortened like the names here: see `shortened` in timeline/tiles.py. */
function cut(pattern: string): string {
  const name = [...pattern.slice(1, -1)];
  return /^".*"$/s.test(pattern) && name.length > LONGEST_NAME
    ? `"${name.slice(0, LONGEST_NAME - 1).join("")}…"`
    : pattern;
}
