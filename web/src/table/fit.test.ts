import { describe, expect, it } from "vitest";
import { fitted } from "./fit";

const text = (width: number) => ({ width, isText: true });
const number = (width: number) => ({ width, isText: false });
const numbers = (count: number) => Array.from({ length: count }, () => number(76));

describe("a table in a width", () => {
  it("is as it is where it has room", () => {
    expect(fitted([text(300), number(76)], 376, true)).toBeNull();
  });

  it("shortens texts first, the longest ones", () => {
    expect(fitted([text(406), text(186), ...numbers(4)], 760, true)).toEqual({ text: 300, kept: 6 });
  });

  it("leaves the last columns out where texts would tell nothing", () => {
    const fit = fitted([text(366), text(306), ...numbers(10)], 900, true);
    expect(fit).toEqual({ text: 205, kept: 9 });
    expect(205 * 2 + 7 * 70).toBeLessThanOrEqual(900);
  });

  it("is scrolled where it would lose many columns, or shows what somebody chose", () => {
    expect(fitted([text(366), ...numbers(12)], 360, true)?.kept).toBe(13);
    expect(fitted([text(366), ...numbers(12)], 760, false)?.kept).toBe(13);
  });
});
