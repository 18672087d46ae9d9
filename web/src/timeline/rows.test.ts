import { describe, expect, it } from "vitest";
import type { Layout, Track } from "../source/timeline";
import { rowAt, rowsOf, scrollTo, topOf } from "./rows";

function track(id: string, kind: Track["kind"], lanes = 1, dull = false): Track {
  return { id, kind, title: id, lanes, events: 1, dull, unit: "" };
}

const LAYOUT = {
  ranks: [
    {
      rank: 0,
      title: "rank 0",
      tracks: [track("0.steps", "steps"), track("0.h0", "thread", 3), track("0.h1", "thread", 5, true)],
    },
    { rank: 1, title: "rank 1", tracks: [track("1.steps", "steps"), track("1.h0", "thread", 4)] },
  ],
} as unknown as Layout;
const AT_FIRST = { turned: new Set<string>(), pins: [], lanes: new Map<string, number>() };

describe("tracks from the top", () => {
  it("folds dull threads and all ranks but the first, which keep their steps", () => {
    const { rows } = rowsOf(LAYOUT, AT_FIRST);
    expect(rows.map((one) => [one.id, one.lanes, one.folded])).toEqual([
      ["rank 0", 0, false],
      ["0.steps", 1, false],
      ["0.h0", 3, false],
      ["0.h1", 1, true],
      ["rank 1", 0, true],
      ["1.steps", 1, true],
    ]);
  });

  it("turns what is turned, and knows how many lanes a tile has told of", () => {
    const turned = new Set(["0.h0", "0.h1", "rank 1"]);
    const { rows } = rowsOf(LAYOUT, { ...AT_FIRST, turned, lanes: new Map([["0.h1", 7]]) });
    expect(rows.map((one) => [one.id, one.lanes])).toEqual([
      ["rank 0", 0],
      ["0.steps", 1],
      ["0.h0", 1],
      ["0.h1", 7],
      ["rank 1", 0],
      ["1.steps", 1],
      ["1.h0", 4],
    ]);
  });

  it("keeps pinned tracks above what scrolls, and finds both under the pointer", () => {
    const rows = rowsOf(LAYOUT, { ...AT_FIRST, pins: ["1.h0", "gone"] });
    const [pinned] = rows.pinned;
    expect(pinned?.title).toBe("rank 1: 1.h0");
    expect(rows.rows.some((one) => one.id === "1.h0")).toBe(false);
    expect(rowAt(rows, 20, 500)).toEqual({ row: pinned, lane: 1 });
    const thread = rows.rows.find((one) => one.id === "0.h0");
    const y = topOf(rows, thread as (typeof rows.rows)[0], 30);
    expect(rowAt(rows, y + 2 + 17 * 2.5, 30)).toEqual({ row: thread, lane: 2 });
    expect(rowAt(rows, 10_000, 0)).toBeUndefined();
  });

  it("scrolls as far as a track needs to be seen, and no farther", () => {
    const rows = rowsOf(LAYOUT, AT_FIRST);
    expect(scrollTo(rows, "0.steps", 0, 0, 100)).toBe(0);
    expect(scrollTo(rows, "1.steps", 0, 0, 100)).toBeGreaterThan(0);
    expect(scrollTo(rows, "unknown", 0, 7, 100)).toBe(7);
  });
});
