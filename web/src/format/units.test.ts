import { describe, expect, it } from "vitest";
import { tickText, timeText, valueText } from "./units";
import cases from "./units.cases.json";

describe("numbers read as in the terminal", () => {
  it.each(cases as [string, number | null, string][])("%s %s", (unit, value, text) => {
    expect(valueText(value, { unit })).toBe(text);
  });

  it("writes a point in time to the microsecond", () => {
    expect(valueText(2315021334, { unit: "ns", moment: true })).toBe("2.315021 s");
  });

  it("takes a whole number of a column of floats for one", () => {
    expect(valueText(12346, { unit: "", type: "float" })).toBe("1.235e+04");
  });

  it("takes the even one of two equally near decimals, as Python does", () => {
    expect([timeText(0.5), timeText(1.5), timeText(2.5)]).toEqual(["0 ns", "2 ns", "2 ns"]);
  });

  it("leaves out zeros that say nothing on an axis", () => {
    expect([1.2e6, 1e8, 0].map((ns) => tickText(ns, "ns"))).toEqual(["1.2 ms", "100 ms", "0 ns"]);
    expect(tickText(0.25, "ratio")).toBe("25 %");
  });

  it("never shows what was not measured as 0", () => {
    expect(valueText(null, { unit: "ratio" })).toBe("–");
    expect(valueText(undefined, { unit: "count" })).toBe("–");
  });
});
