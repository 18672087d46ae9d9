import { describe, expect, it } from "vitest";
import { chartOf } from "./chart";
import { type Column, heads, shownAtFirst } from "./columns";

const column = (name: string, more: Partial<Column> = {}): Column => ({
  name,
  type: "int",
  unit: name.endsWith("_ns") ? "ns" : name.endsWith("_ratio") ? "ratio" : "",
  meaning: "",
  visible: true,
  ...more,
});
const NAME = column("name", { type: "text" });

describe("the chart of any answer", () => {
  it("draws the declared sum of named rows", () => {
    const columns = [NAME, column("mean_ns"), column("total_ns", { sums: true })];
    const rows = [
      { name: "a", mean_ns: 1, total_ns: 5 },
      { name: "b", mean_ns: 2, total_ns: 3 },
    ];
    expect(chartOf(columns, rows, "columns")).toMatchObject({ kind: "bars", value: { name: "total_ns" } });
  });

  it("names rows that the first text does not tell apart by what does", () => {
    const columns = [
      NAME,
      column("kind", { type: "text" }),
      column("span"),
      column("rank"),
      column("total_ns"),
    ];
    const rows = ["x", "y"].map((kind) => ({ name: "a", kind, span: 0, rank: 0, total_ns: 1 }));
    expect(chartOf(columns, rows, "columns")).toMatchObject({ beside: [{ name: "kind" }] });
    const again = rows.map((row) => ({ ...row, span: 1 }));
    const both = [...rows, ...again, { ...rows[0], name: "b" }, { ...rows[0], name: "c" }];
    expect(chartOf(columns, both, "columns")).toMatchObject({ beside: [{ name: "kind" }, { name: "span" }] });
    expect(
      chartOf(columns, [...rows.slice(1), { name: "b", kind: "x", total_ns: 1 }], "columns"),
    ).toMatchObject({
      kind: "bars",
      beside: [],
    });
  });

  it("draws ratios over time where rows are moments without names", () => {
    const columns = [
      column("rank"),
      column("start_ns", { moment: true }),
      column("busy_ns"),
      column("used_ratio"),
    ];
    const rows = [0, 1, 2].map((time) => ({ rank: 0, start_ns: time, busy_ns: 1, used_ratio: 0.5 }));
    const chart = chartOf(columns, rows, "columns");
    expect(chart).toMatchObject({ kind: "lines", values: [{ name: "used_ratio" }] });
  });

  it("draws nothing of words, of one row, and of what was not measured", () => {
    const row = { name: "a", total_ns: null };
    expect(chartOf([NAME, column("total_ns")], [row, row], "columns").kind).toBe("none");
    expect(chartOf([NAME, column("total_ns")], [{ name: "a", total_ns: 1 }], "columns").kind).toBe("none");
    expect(chartOf([NAME], [{ name: "a" }, { name: "b" }], "none").kind).toBe("none");
  });
});

describe("columns", () => {
  it("are named without their unit, and shares apart from what they are shares of", () => {
    const columns = [column("device_self_ns"), column("used_ns"), column("used_ratio", { type: "float" })];
    expect(heads(columns)).toEqual(["device self", "used", "used share"]);
    const alike = [column("device", { type: "int" }), column("device_bytes", { unit: "bytes" })];
    expect(heads(alike)).toEqual(["device", "device bytes"]);
    expect(heads([column("bus_bytes_per_s", { unit: "bytes/s" })])).toEqual(["bus bandwidth"]);
  });

  it("are shown where they are declared so and have a value", () => {
    const columns = [
      NAME,
      column("empty_ns"),
      column("path", { visible: false }),
      column("rank", { visible: "varying" }),
    ];
    const rows = [{ name: null, empty_ns: null, path: "x", rank: 0 }];
    expect([...shownAtFirst(columns, rows)]).toEqual(["name"]);
  });
});
