import { describe, expect, it } from "vitest";
import { intervals, reach } from "./intervals";

describe("values with intervals", () => {
  const rows = [
    { label: "forward", mean_ns: 5, ci95_low_ns: 4, ci95_high_ns: 7 },
    { label: "backward", mean_ns: -2, ci95_low_ns: null, ci95_high_ns: null },
    { label: "not measured", mean_ns: null, ci95_low_ns: null, ci95_high_ns: null },
  ];
  const columns = { value: "mean_ns", low: "ci95_low_ns", high: "ci95_high_ns" };
  const all = intervals(
    rows,
    columns,
    (row) => String(row.label),
    () => "",
  );

  it("leave out what was not measured", () => {
    expect(all.map((one) => [one.name, one.low, one.value, one.high])).toEqual([
      ["forward", 4, 5, 7],
      ["backward", null, -2, null],
    ]);
  });

  it("share a scale that has 0 on it", () => {
    expect(reach(all, true)).toEqual({ low: -2, high: 7 });
    expect(reach([], false)).toEqual({ low: 0, high: 1 });
  });

  it("reach below 0 where they are differences", () => {
    const unsure = [{ name: "forward", value: 5, low: -3, high: 13, beside: "" }];
    expect(reach(unsure, true)).toEqual({ low: -3, high: 13 });
    expect(reach(unsure, false)).toEqual({ low: 0, high: 13 });
  });
});
