import { describe, expect, it } from "vitest";
import { curved, merged, unpacked } from "./merge";
import cases from "./merge.cases.json";

describe("what a report holds, in tiles", () => {
  it.each(cases)("level $level, tile $index: as the server makes it", ({ level, index, lanes, tile }) => {
    const { rows, ...made } = merged(lanes.map(unpacked), level, index, 512);
    expect(made).toEqual(tile);
    expect(rows).toBe(lanes.length);
  });

  it("has of a curve each bin and the value before", () => {
    const values = { start: [0, 10, 512, 513, 514, 600], value: [1, 2, 5, 3, 4, 9] };
    expect(curved(values, 1, 1, 256)).toEqual({
      rows: 1,
      start: [-502, 0, 2, 88],
      count: [0, 2, 1, 1],
      low: [2, 3, 4, 9],
      high: [2, 5, 4, 9],
      last: [2, 3, 4, 9],
    });
    expect(curved({ start: [], value: [] }, 0, 0, 256).start).toEqual([]);
  });
});
