import { describe, expect, it } from "vitest";
import type { Blocks, Layout, Tile } from "../source/timeline";
import { blockAt, blockBeside, markOf } from "./hit";
import { laneStarts, type Piece, Tiles } from "./tiles";

const BLOCKS: Blocks = {
  rows: 3,
  lane: [0, 0, 0, 2],
  start: [0, 100, 200, 50],
  end: [80, 150, 900, 60],
  count: [1, 7, 1, 1],
  busy: [80, 30, 700, 10],
  name: [0, 1, 0, 1],
  kind: [0, 0, 0, 0],
  id: [4, 5, 6, 7],
};
const PIECE: Piece = { level: 1, index: 3, names: ["a", "b"], data: BLOCKS, lanes: laneStarts(BLOCKS) };
const BASE = 3 * 512 * 2;

describe("what is at a place", () => {
  it("knows where each lane starts, empty ones too", () => {
    expect(PIECE.lanes).toEqual([0, 3, 3, 4]);
  });

  it("is the block that contains it, or the nearest one within reach", () => {
    const at = (lane: number, time: number, slack = 5) => blockAt(PIECE, lane, BASE + time, slack, 512);
    expect([at(0, 40), at(0, 84), at(0, 90), at(0, 97), at(0, 899)]).toEqual([0, 0, -1, 1, 2]);
    expect([at(1, 40), at(2, 55), at(2, 55, 0)]).toEqual([-1, 3, 3]);
  });

  it("tells what a block stands for", () => {
    const layout = { bins: 512, kinds: ["copy"] } as unknown as Layout;
    expect(markOf("t", PIECE, 1, layout)).toEqual({
      track: "t",
      lane: 0,
      from: BASE + 100,
      to: BASE + 150,
      count: 7,
      busy: 30,
      name: "b",
      kind: "copy",
      id: 5,
    });
  });

  it("has a next one and a previous one", () => {
    const beside = (at: number, forward: boolean) => blockBeside([PIECE], 0, BASE + at, forward, 512)?.[1];
    expect([beside(0, true), beside(100, true), beside(200, true)]).toEqual([1, 2, undefined]);
    expect([beside(200, false), beside(0, false)]).toEqual([1, undefined]);
  });
});

describe("tiles", () => {
  const tile = (tracks: readonly string[]): Tile => ({
    names: [],
    tracks: Object.fromEntries(tracks.map((one) => [one, BLOCKS])),
  });

  it("are asked for once, and stand in for one another until they are there", async () => {
    const asked: string[] = [];
    const tiles = new Tiles(
      async (level, index, tracks) => {
        asked.push(`${level} ${index} ${tracks}`);
        return tile(tracks);
      },
      () => {},
    );
    tiles.want(["x", "y"], 4, [0]);
    tiles.want(["x", "y", "z"], 4, [0]);
    await new Promise((done) => setTimeout(done));
    tiles.want(["x", "y", "z"], 4, [0]);
    expect(asked).toEqual(["4 0 x,y", "4 0 z"]);
    expect(tiles.has(["x", "z"], 4, [0])).toBe(true);
    expect(tiles.drawn("x", 2, 3).map((one) => [one.level, one.index])).toEqual([[4, 0]]);
    expect(tiles.drawn("x", 5, 0).map((one) => one.level)).toEqual([4]);
    expect(tiles.drawn("x", 4, 1)).toEqual([]);
  });

  it("are asked for in groups that need not wait for one another", () => {
    const asked: string[] = [];
    const tiles = new Tiles(
      async (_level, index, tracks) => {
        asked.push(`${index} ${tracks}`);
        return tile(tracks);
      },
      () => {},
      (track) => track.slice(0, 1),
    );
    tiles.want(["a1", "b1", "a2"], 4, [0]);
    expect(asked).toEqual(["0 a1,a2", "0 b1"]);
  });

  it("are not asked for again where they are refused, which is told", async () => {
    const told: unknown[] = [];
    let asked = 0;
    const tiles = new Tiles(
      async () => {
        asked += 1;
        throw new Error("no");
      },
      (error) => told.push(error),
    );
    tiles.want(["x"], 4, [0]);
    await new Promise((done) => setTimeout(done));
    tiles.want(["x"], 4, [0]);
    expect(asked).toBe(1);
    expect(told).toEqual([new Error("no")]);
    expect(tiles.has(["x"], 4, [0])).toBe(true);
  });
});
