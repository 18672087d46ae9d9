import { describe, expect, it } from "vitest";
import type { Column } from "../table/columns";
import { entriesOf, keptIn, spotOf, spotState } from "./address";

function back(entries: Readonly<Record<string, string | null>>) {
  return keptIn(
    new Map(Object.entries(entries).flatMap(([name, one]) => (one === null ? [] : [[name, one]]))),
  );
}

describe("the timeline in the address", () => {
  it("comes back as it was", () => {
    const kept = {
      range: [5, 900] as const,
      at: { track: "0.s0.-1", id: 77 },
      pins: ["0.h0"],
      turned: ["rank 1", "0.h1"],
      find: "a&b=</script>",
      measured: { range: [10, 20] as const, tracks: ["0.h0", "0.s0.7"] },
      hidesWarmUp: true,
      rank: 3,
    };
    expect(back(entriesOf(kept))).toEqual(kept);
    const nothing = {
      range: null,
      at: null,
      pins: [],
      turned: [],
      find: "",
      measured: null,
      hidesWarmUp: false,
      rank: null,
    };
    expect(back(entriesOf(nothing))).toEqual(nothing);
  });

  it("takes what is none for nothing", () => {
    const state = new Map([
      ["from", "x"],
      ["to", "5"],
      ["at", "7"],
      ["measure", "9:1:a"],
    ]);
    expect(keptIn(state)).toMatchObject({ range: null, at: null, measured: null });
  });

  it("shows a place that another view knows, with room, or else looks for the name", () => {
    expect(spotState({ from: 100, to: 300, name: "gemm" })).toEqual({
      from: "90",
      to: "310",
      find: '"gemm"',
    });
    expect(spotState({ from: null, to: 300, name: "gemm" })).toEqual({ find: '"gemm"' });
    expect(spotState({ name: "gemm<flo…" })).toEqual({ find: "gemm<flo*" });
    expect(spotState({})).toEqual({});
    expect(spotState({ name: "gemm", rank: 3 })).toEqual({ find: '"gemm"', rank: "3" });
    expect(spotState({ rank: 3 })).toEqual({});
  });

  it("finds the place of a row: when it runs, or the events of its name", () => {
    const column = (name: string, more: object) => ({ name, ...more }) as unknown as Column;
    const moment = column("start_ns", { moment: true });
    expect(spotOf("steps", [moment], { start_ns: 5, total_ns: 10 })).toEqual({ from: 5, to: 15 });
    expect(spotOf("steps", [moment], { rank: 2, start_ns: 5, total_ns: 10 })).toEqual({
      from: 5,
      to: 15,
      rank: 2,
    });
    expect(spotOf("kernels", [column("name", { kernels: true })], { name: "gemm" })).toEqual({
      name: "gemm",
    });
    expect(spotOf("operators", [column("name", {})], { name: "aten::mm" })).toEqual({ name: "aten::mm" });
    expect(spotOf("steps", [moment], { start_ns: null, total_ns: 10 })).toBeUndefined();
    expect(spotOf("sources", [column("path", {})], { path: "a" })).toBeUndefined();
  });
});
