/**
 * Makes tiles from a report's events, as `timeline/tiles.py` does from a store. A shared list of cases
 * keeps both in agreement.
 */
import type { Blocks, Curve } from "../source/timeline";

/** Events by start. Starts and numbers are stored as differences. */
export interface PackedLane {
  readonly start: readonly number[];
  readonly length: readonly number[];
  readonly name: readonly number[];
  readonly kind: readonly number[];
  readonly id: readonly number[];
}

export interface Lane extends PackedLane {
  readonly end: readonly number[];
}

/** The values of a counter by time. */
export interface Values {
  readonly start: readonly number[];
  readonly value: readonly number[];
}

export function unpacked(lane: PackedLane): Lane {
  const start = sums(lane.start);
  return {
    ...lane,
    start,
    id: sums(lane.id),
    end: start.map((one, place) => one + (lane.length[place] ?? 0)),
  };
}

export function sums(changes: readonly number[]): number[] {
  let sum = 0;
  return changes.map((one) => {
    sum += one;
    return sum;
  });
}

export function merged(lanes: readonly Lane[], level: number, index: number, bins: number): Blocks {
  const size = 2 ** level;
  const from = index * bins * size;
  const to = from + bins * size;
  const made: Record<keyof Omit<Blocks, "rows">, number[]> = {
    lane: [],
    start: [],
    end: [],
    count: [],
    busy: [],
    name: [],
    kind: [],
    id: [],
  };
  lanes.forEach((lane, number) => {
    let bin = -1;
    let block = -1;
    let longest = 0;
    for (let place = firstAt(lane, from); place < lane.start.length; place++) {
      const [start, end] = [lane.start[place] ?? 0, lane.end[place] ?? 0];
      if (start >= to) break;
      const length = end - start;
      const isShort = length < size;
      if (isShort ? start < from : end <= from) continue;
      const own = Math.floor((start - from) / size);
      if (isShort && own === bin && block >= 0) {
        made.end[block] = Math.max(made.end[block] ?? 0, end - from);
        made.count[block] = (made.count[block] ?? 0) + 1;
        made.busy[block] = (made.busy[block] ?? 0) + length;
        if (length <= longest) continue;
      } else {
        const at = made.lane.length;
        made.lane.push(number);
        made.start.push(start - from);
        made.end.push(end - from);
        made.count.push(1);
        made.busy.push(length);
        if (isShort) [bin, block] = [own, at];
        set(made, at, lane, place);
        if (isShort) longest = length;
        continue;
      }
      longest = length;
      set(made, block, lane, place);
    }
  });
  return { rows: lanes.length, ...made };
}

function set(made: { name: number[]; kind: number[]; id: number[] }, at: number, lane: Lane, place: number) {
  made.name[at] = lane.name[place] ?? 0;
  made.kind[at] = lane.kind[place] ?? 0;
  made.id[at] = lane.id[place] ?? 0;
}

/** The first event that may reach beyond `from`. A linear search, because lanes of a report are short. */
function firstAt(lane: Lane, from: number): number {
  const found = lane.end.findIndex((end, place) => end > from || (lane.start[place] ?? 0) >= from);
  return found < 0 ? lane.start.length : found;
}

export function curved(values: Values, level: number, index: number, bins: number): Curve {
  const size = 2 ** level;
  const from = index * bins * size;
  const made: Record<keyof Omit<Curve, "rows">, number[]> = {
    start: [],
    count: [],
    low: [],
    high: [],
    last: [],
  };
  const put = (start: number, count: number, value: number) => {
    made.start.push(start - from);
    made.count.push(count);
    for (const column of [made.low, made.high, made.last]) column.push(value);
  };
  let bin = -1;
  for (let place = 0; place < values.start.length; place++) {
    const [start, value] = [values.start[place] ?? 0, values.value[place] ?? 0];
    if (start >= from + bins * size) break;
    if (start < from) {
      if ((values.start[place + 1] ?? from) >= from) put(start, 0, value);
      continue;
    }
    const own = Math.floor((start - from) / size);
    const at = made.start.length - 1;
    if (own !== bin) put(start, 1, value);
    else {
      made.count[at] = (made.count[at] ?? 0) + 1;
      made.low[at] = Math.min(made.low[at] ?? value, value);
      made.high[at] = Math.max(made.high[at] ?? value, value);
      made.last[at] = value;
    }
    bin = own;
  }
  return { rows: 1, ...made };
}
