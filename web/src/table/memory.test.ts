import { describe, expect, it } from "vitest";
import { curvesOf } from "./memory";

describe("memory over time", () => {
  const rows = [
    { rank: 0, kind: "cuda", device: 0, time_ns: 1, allocated_bytes: 5, reserved_bytes: 9, unknown_bytes: 5 },
    { rank: 1, kind: "cpu", device: null, time_ns: 1, allocated_bytes: 3, reserved_bytes: null },
    { rank: 0, kind: "cuda", device: 0, time_ns: 4, allocated_bytes: 7, reserved_bytes: 9, unknown_bytes: 2 },
  ];

  it("is a curve a device, and what was not measured is none of it", () => {
    const [device, host] = curvesOf(rows);
    expect(device?.name).toBe("cuda 0, rank 0");
    expect(device?.times).toEqual([1, 4]);
    expect(device?.allocated).toEqual([5, 7]);
    expect(device?.parts.unknown).toEqual([5, 2]);
    expect(host?.name).toBe("the host, rank 1");
    expect(host?.reserved).toEqual([null]);
  });

  it("finds the row of another answer that is about the same memory", () => {
    const [device] = curvesOf(rows);
    expect(device?.isOf({ rank: 0, kind: "cuda", device: 0, at_ns: 4 })).toBe(true);
    expect(device?.isOf({ rank: 1, kind: "cuda", device: 0 })).toBe(false);
  });
});
