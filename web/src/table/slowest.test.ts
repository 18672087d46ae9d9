import { describe, expect, it } from "vitest";
import { slowest } from "./slowest";

const step = (number: number, total_ns: number, left_out: string | null = null) => ({
  step: number,
  total_ns,
  left_out,
});

describe("slowest", () => {
  it("keeps rows that have room as they are", () => {
    const rows = [step(0, 5), step(1, 9)];
    expect(slowest(rows, 2).map(({ row, count }) => [row.step, count])).toEqual([
      [0, 1],
      [1, 1],
    ]);
  });

  it("loses no step that stands out, and says how many each stands for", () => {
    const rows = Array.from({ length: 1001 }, (_, number) => step(number, number === 700 ? 900 : 10));
    const runs = slowest(rows, 500);
    expect(runs.length).toBeLessThanOrEqual(500);
    expect(runs.reduce((sum, one) => sum + one.count, 0)).toBe(1001);
    const found = runs.find(({ row }) => row.step === 700);
    expect(found?.first.step).toBe(699);
    expect(found?.last.step).toBe(701);
    expect(runs.at(-1)?.count).toBe(2);
  });

  it("prefers a step that means count to a slower one that they leave out", () => {
    const runs = slowest([step(0, 99, "the first"), step(1, 10), step(2, 12)], 1);
    expect(runs.map(({ row }) => row.step)).toEqual([2]);
    expect(slowest([step(0, 99, "cut off"), step(1, 98, "cut off")], 1)[0]?.row.step).toBe(0);
  });
});
