import { describe, expect, it } from "vitest";
import { ancestorsOf, depthAtFirst, type TreeRow, visibleRows } from "./tree";

function row(id: string, above: string | null, depth: number): TreeRow {
  return { id, name: id, full: id, above, depth };
}

const ROWS = [row("a", null, 0), row("b", "a", 1), row("c", "b", 2), row("d", "a", 1), row("e", null, 0)];

describe("a tree in a table", () => {
  it("shows what all above it are open for", () => {
    const open = new Set(["a"]);
    expect(visibleRows(ROWS, (one) => open.has(one.id)).map((one) => one.id)).toEqual(["a", "b", "d", "e"]);
  });

  it("keeps what is searched for with what stands above and below it", () => {
    const { kept, above } = ancestorsOf(ROWS, new Set(["b"]));
    expect([...kept].sort()).toEqual(["a", "b", "c"]);
    expect([...above]).toEqual(["a"]);
  });

  it("is open as deep as whole levels fit on a screen", () => {
    expect(depthAtFirst(ROWS)).toBe(2);
    const many = Array.from({ length: 40 }, (_, place) => row(`x${place}`, "b", 2));
    expect(depthAtFirst([...ROWS, ...many])).toBe(1);
    expect(depthAtFirst([])).toBe(0);
  });
});
