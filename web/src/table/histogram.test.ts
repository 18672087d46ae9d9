import { describe, expect, it } from "vitest";
import { histogram, ticks } from "./histogram";

const bin = (from_ns: number, to_ns: number, count: number) => ({ from_ns, to_ns, count });

describe("a histogram", () => {
  it("gives each factor the same room", () => {
    const drawn = histogram([bin(10, 100, 4), bin(1000, 10_000, 1)]);
    expect(drawn.bins.map((one) => [one.from, one.to].map((at) => Number(at.toFixed(9))))).toEqual([
      [0, 0.333333333],
      [0.666666667, 1],
    ]);
    expect(drawn.bins.map((one) => one.tall)).toEqual([1, 0.25]);
    expect(drawn.at(1000)).toBeCloseTo(2 / 3);
    expect([drawn.at(9), drawn.at(10_001)]).toEqual([null, null]);
    expect(ticks(drawn, 3).map(Math.round)).toEqual([10, 100, 1000, 10_000]);
  });

  it("has room for what took no time", () => {
    const [only] = histogram([bin(0, 1, 2)]).bins;
    expect([only?.from, only?.to]).toEqual([0, 1]);
    expect(histogram([bin(0, 1, 2), bin(4, 16, 1)]).bins[1]?.from).toBeCloseTo(0.6);
  });
});
