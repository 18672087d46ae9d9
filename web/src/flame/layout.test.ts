import { describe, expect, it } from "vitest";
import { frameAt, layout, type Node, neighbour } from "./layout";

const node = (id: string, parent: string | null, value: number): Node => ({
  id,
  name: id,
  parent,
  value,
  part: null,
});
const TREE = [
  node("model", null, 8),
  node("a", "model", 2),
  node("b", "model", 4),
  node("c", "b", 4),
  node("x", null, 2),
];

const places = (frames: ReturnType<typeof layout>) =>
  frames.map((one) => [one.node.id, one.depth, one.left, one.width]);

describe("an icicle", () => {
  it("gives roots the width that their values share, and parts their part of it, the largest first", () => {
    expect(places(layout(TREE))).toEqual([
      ["model", 0, 0, 0.8],
      ["b", 1, 0, 0.4],
      ["c", 2, 0, 0.4],
      ["a", 1, 0.4, 0.2],
      ["x", 0, 0.8, 0.2],
    ]);
  });

  it("shows what is below one node in full width, under what is above it", () => {
    expect(places(layout(TREE, "b"))).toEqual([
      ["model", 0, 0, 1],
      ["b", 1, 0, 1],
      ["c", 2, 0, 1],
    ]);
  });

  it("keeps parts inside, where they add up to more than what they are part of", () => {
    const frames = layout([node("m", null, 4), node("p", "m", 3), node("q", "m", 3)]);
    expect(frames.map((one) => one.width)).toEqual([1, 0.5, 0.5]);
  });

  it("takes a node whose parent is missing for a root, and survives one that is above itself", () => {
    expect(places(layout([node("a", "gone", 1)]))).toEqual([["a", 0, 0, 1]]);
    expect(layout([node("a", "b", 1), node("b", "a", 1)], "a").length).toBeGreaterThan(0);
  });

  it("is walked with the arrow keys", () => {
    const frames = layout(TREE);
    const at = (id: string) => frames.find((one) => one.node.id === id);
    expect(neighbour(frames, undefined, "down")?.node.id).toBe("model");
    expect(neighbour(frames, at("model"), "down")?.node.id).toBe("b");
    expect(neighbour(frames, at("c"), "up")?.node.id).toBe("b");
    expect(neighbour(frames, at("b"), "right")?.node.id).toBe("a");
    expect(neighbour(frames, at("x"), "right")?.node.id).toBe("x");
    expect(frameAt(frames, 0.45, 1)?.node.id).toBe("a");
  });
});
