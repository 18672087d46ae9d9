import { describe, expect, it } from "vitest";
import { contrast, mixed, tintOf } from "./colours";

describe("colours", () => {
  it("mixes long and short ones", () => {
    expect(mixed("#000000", "#ffffff", 0.5)).toEqual([128, 128, 128]);
    expect(mixed("#046070", "#fff", 0)).toEqual([4, 96, 112]);
  });

  it("knows which ink can be read", () => {
    expect(contrast([255, 255, 255], 0)).toBeCloseTo(21);
    expect(contrast([9, 12, 128], 1)).toBeGreaterThan(contrast([9, 12, 128], 0));
  });

  it("gives a name the same tint each time", () => {
    expect(tintOf("aten::mm")).toBe(tintOf("aten::mm"));
    expect(new Set(["a", "b", "c", "d"].map(tintOf)).size).toBeGreaterThan(1);
  });
});
