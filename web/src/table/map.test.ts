import { describe, expect, it } from "vitest";
import { mapOf } from "./map";

const row = (rank: number, step: number, value_ns: number | null, counted = true) => ({
  rank,
  step,
  value_ns,
  counted,
});

describe("a map of ranks and steps", () => {
  it("has lines and columns in order, and blanks where a rank lacks a step", () => {
    const map = mapOf([row(1, 10, 5), row(0, 9, 4), row(0, 10, 8)]);
    expect([map.ranks, map.steps]).toEqual([
      [0, 1],
      [9, 10],
    ]);
    expect(map.cells.get("1 9")).toBeUndefined();
    expect([map.low, map.median, map.high]).toEqual([4, 5, 8]);
  });

  it("does not make a pattern of noise, nor stretch over steps that do not count", () => {
    const map = mapOf([row(0, 1, 100), row(1, 1, 101), row(0, 0, 900, false)]);
    expect([map.low, map.high]).toEqual([100, 110.05]);
  });

  it("takes what was not measured for nothing", () => {
    expect(mapOf([row(0, 1, null)])).toMatchObject({ low: 0, high: 0 });
  });
});
