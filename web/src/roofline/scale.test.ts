import { describe, expect, it } from "vitest";
import { attainable, logScale, ridge } from "./scale";

describe("the roofline", () => {
  it("has axes of whole powers of ten around what it shows", () => {
    const scale = logScale([30, 2e6]);
    expect([scale.low, scale.high]).toEqual([10, 1e7]);
    expect([scale.at(10), scale.at(1e4), scale.at(1e7)]).toEqual([0, 0.5, 1]);
  });

  it("has an axis for nothing, and for one value", () => {
    expect(logScale([]).ticks).toEqual([1, 10]);
    expect(logScale([100]).ticks).toEqual([100, 1000]);
  });

  it("is bound by memory up to its ridge and by computation from there", () => {
    const roof = { name: "float32", peak: 100, bandwidth: 20 };
    expect(ridge(roof)).toBe(5);
    expect([attainable(roof, 1), attainable(roof, 50)]).toEqual([20, 100]);
  });
});
