import { describe, expect, it } from "vitest";
import type { Column } from "./columns";
import { filtered, matcher, nextSort, parseSort, sorted, sortText } from "./rows";

const NAME: Column = { name: "name", type: "text", unit: "", meaning: "" };
const TOTAL: Column = { name: "total_ns", type: "int", unit: "ns", meaning: "" };
const ROWS = [
  { name: "b", total_ns: 2 },
  { name: "a", total_ns: null },
  { name: "c", total_ns: 9 },
  { name: "A", total_ns: 2 },
];

describe("sorting", () => {
  it("puts what was not measured last, both ways, and keeps the order of equal rows", () => {
    const places = [0, 1, 2, 3];
    expect(sorted(ROWS, places, { column: "total_ns", descending: true })).toEqual([2, 0, 3, 1]);
    expect(sorted(ROWS, places, { column: "total_ns", descending: false })).toEqual([0, 3, 2, 1]);
  });

  it("starts numbers with the largest and texts with a, and ends where it began", () => {
    const first = nextSort(null, TOTAL);
    expect(first).toEqual({ column: "total_ns", descending: true });
    const second = nextSort(first, TOTAL);
    expect(second).toEqual({ column: "total_ns", descending: false });
    expect(nextSort(second, TOTAL)).toBeNull();
    expect(nextSort(first, NAME)).toEqual({ column: "name", descending: false });
  });

  it("is written in the address as on the command line", () => {
    const sort = { column: "total_ns", descending: false };
    expect(parseSort(sortText(sort))).toEqual(sort);
    expect(parseSort(undefined)).toBeNull();
  });
});

describe("filtering", () => {
  const names = (text: string) => {
    const matches = matcher(text);
    return matches === null ? null : filtered(ROWS, [NAME, TOTAL], matches).map((place) => ROWS[place]?.name);
  };

  it("takes words in any case, globs and regular expressions", () => {
    expect(names("a")).toEqual(["a", "A"]);
    expect(names("?")).toEqual(["b", "a", "c", "A"]);
    expect(names("/^[bc]$/")).toEqual(["b", "c"]);
    expect(names("")).toEqual(["b", "a", "c", "A"]);
  });

  it("takes what stands in quotes as all of it", () => {
    expect(names('"a"')).toEqual(["a"]);
    expect(matcher('"aten::add"')?.("aten::add_")).toBe(false);
    expect(matcher('"k<int*>("")"')?.('k<int*>("")')).toBe(true);
  });

  it("takes other signs of a glob as they are", () => {
    expect(matcher("*<float>(*")?.("gemm<float>(int)")).toBe(true);
    expect(matcher("*<float>(*")?.("gemm<double>(int)")).toBe(false);
  });

  it("says where an expression is none", () => {
    expect(matcher("/(/")).toBeNull();
  });
});
