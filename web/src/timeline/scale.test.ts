import { describe, expect, it } from "vitest";
import { around, levelOf, momentText, moved, ticks, tilesOf, within, zoomed } from "./scale";

const ALL = { from: 0, to: 1_000_000 };

describe("time on a line", () => {
  it("keeps what is pointed at where it is while it zooms", () => {
    const range = zoomed({ from: 100_000, to: 300_000 }, 0.5, 150_000, ALL);
    expect(range).toEqual({ from: 125_000, to: 225_000 });
  });

  it("goes no farther than the recording, with a little room", () => {
    expect(moved({ from: 0, to: 100_000 }, -1e9, ALL)).toEqual({ from: -20_000, to: 80_000 });
    expect(within({ from: -1e12, to: 1e12 }, ALL)).toEqual({ from: -20_000, to: 1_020_000 });
    const closest = zoomed({ from: 5, to: 60 }, 0.001, 30, ALL);
    expect(closest.to - closest.from).toBe(50);
  });

  it("shows a stretch with room beside it, also one of no length", () => {
    expect(around(100_000, 200_000, ALL)).toEqual({ from: 90_000, to: 210_000 });
    const moment = around(500, 500, ALL);
    expect((moment.from + moment.to) / 2).toBe(500);
  });

  it("asks for tiles whose bins are a pixel or less", () => {
    expect(levelOf({ from: 0, to: 1_000_000 }, 1000)).toBe(9);
    expect(levelOf({ from: 0, to: 100 }, 1000)).toBe(0);
    const there = { bins: 512, start_ns: -600_000, end_ns: 1_000_000 };
    expect(tilesOf({ from: -5, to: 600_000 }, 9, there)).toEqual([-1, 0, 1, 2]);
    expect(tilesOf({ from: -5, to: 600_000 }, 9, { ...there, start_ns: 0, end_ns: 300_000 })).toEqual([0, 1]);
  });

  it("marks round times, told apart by their digits", () => {
    const { step, marks } = ticks({ from: 1_234_560_000, to: 1_234_569_000 }, 1000);
    expect(step).toBe(1000);
    expect(marks.slice(0, 2).map((one) => one.text)).toEqual(["1.234560 s", "1.234561 s"]);
    const round = ticks({ from: 700_000_000, to: 1_100_000_000 }, 500).marks;
    expect(round.map((one) => one.text)).toEqual(["0.7 s", "0.8 s", "0.9 s", "1.0 s", "1.1 s"]);
    expect(momentText(0, 1000)).toBe("0");
    expect(momentText(2_500, 500)).toBe("2.5 µs");
  });
});
