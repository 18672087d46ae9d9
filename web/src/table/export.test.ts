import { describe, expect, it } from "vitest";
import type { Column } from "./columns";
import { csvText, markdownText } from "./export";
import { groupable, grouped, shareColumn } from "./groups";

const COLUMNS: Column[] = [
  { name: "name", type: "text", unit: "", meaning: "" },
  { name: "kind", type: "text", unit: "", meaning: "" },
  { name: "total_ns", type: "int", unit: "ns", meaning: "" },
  { name: "share_ratio", type: "float", unit: "ratio", meaning: "" },
];
const ROWS = [
  { name: 'a "b", c', kind: "x", total_ns: 1500, share_ratio: 0.5 },
  { name: "d|e\nf", kind: "y", total_ns: null, share_ratio: null },
  { name: "</g>", kind: "x", total_ns: 7, share_ratio: 0.25 },
];

describe("copies of a table", () => {
  it("are CSV with values as they are", () => {
    expect(csvText(COLUMNS, ROWS)).toBe(
      'name,kind,total_ns,share_ratio\n"a ""b"", c",x,1500,0.5\n"d|e\nf",y,,\n</g>,x,7,0.25\n',
    );
  });

  it("are Markdown as people read it, whose cells stay cells", () => {
    expect(markdownText(COLUMNS, ["name", "kind", "total", "share"], ROWS)).toBe(
      "| name | kind | total | share |\n| --- | --- | ---: | ---: |\n" +
        '| a "b", c | x | 1.500 µs | 50.0 % |\n| d\\|e f | y | – | – |\n| \\</g\\> | x | 7 ns | 25.0 % |\n',
    );
  });
});

describe("groups of rows", () => {
  it("are by what some rows share", () => {
    expect(groupable(COLUMNS, ROWS).map((one) => one.name)).toEqual(["kind"]);
  });

  it("stand in the order of their first rows, with what they are of the total", () => {
    expect(grouped(ROWS, [1, 2, 0], "kind", shareColumn(COLUMNS))).toEqual([
      { value: "y", places: [1], share: null },
      { value: "x", places: [2, 0], share: 0.75 },
    ]);
  });
});
