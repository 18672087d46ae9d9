import { describe, expect, it } from "vitest";
import { between, fitting, plain } from "./cut";

/** Every character is 10 pixels wide. */
const pen = { measureText: (text: string) => ({ width: 10 * [...text].length }) as TextMetrics };

describe("a text of a file", () => {
  it("turns nothing beside it around", () => {
    expect(plain("\u202elive\u2066 \u05d2\u200f")).toBe("\ufffdlive\ufffd \u05d2\u200f");
  });

  it("keeps its characters complete", () => {
    const text = "a\u{1f525}b";
    expect([0, 1, 2, 3, 4].map((at) => between(text, at))).toEqual([0, 1, 1, 3, 4]);
    expect(fitting(pen, "\u{1f525}".repeat(9), 45)).toBe("\u{1f525}\u{1f525}\u{1f525}…");
  });

  it("fits its room", () => {
    expect(fitting(pen, "short", 50)).toBe("short");
    expect(fitting(pen, "longer", 50)).toBe("long…");
    expect(fitting(pen, "longer", 15)).toBe("");
  });
});
