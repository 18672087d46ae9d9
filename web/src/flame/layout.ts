/** Places the frames of an icicle: roots at the top, parts below their parents. */
export interface Node {
  readonly id: string;
  readonly name: string;
  readonly parent: string | null;
  readonly value: number;
  /** The share of the value that is drawn darker, from 0 to 1; null if unknown. */
  readonly part: number | null;
}

export interface Frame {
  readonly node: Node;
  readonly depth: number;
  /** In parts of the width, from 0 to 1. */
  readonly left: number;
  readonly width: number;
}

/**
 * Lays out a tree's frames, seen from one node, with its ancestors above it across the full width.
 *
 * Parts never take more than their node: if their sum is larger, as with rounded values, they share its
 * width.
 */
export function layout(nodes: readonly Node[], focus: string | null = null): Frame[] {
  const byId = new Map(nodes.map((one) => [one.id, one]));
  const parts = new Map<string | null, Node[]>();
  for (const node of nodes) {
    const above = node.parent !== null && byId.has(node.parent) ? node.parent : null;
    const beside = parts.get(above);
    if (beside === undefined) parts.set(above, [node]);
    else beside.push(node);
  }
  for (const group of parts.values()) group.sort((a, b) => b.value - a.value);
  const frames: Frame[] = [];
  const placed = new Set<string>();
  const place = (all: readonly Node[], depth: number, left: number, width: number, value: number) => {
    const group = all.filter((one) => !placed.has(one.id)); // no frame appears twice, not even inside itself
    for (const one of group) placed.add(one.id);
    const sum = group.reduce((so, one) => so + one.value, 0);
    const scale = width / Math.max(value, sum, Number.MIN_VALUE);
    let at = left;
    for (const node of group) {
      const own = node.value * scale;
      frames.push({ node, depth, left: at, width: own });
      place(parts.get(node.id) ?? [], depth + 1, at, own, node.value);
      at += own;
    }
  };
  const focused = focus === null ? undefined : byId.get(focus);
  if (focused === undefined) {
    place(parts.get(null) ?? [], 0, 0, 1, 0);
    return frames;
  }
  const above = ancestors(byId, focused);
  above.forEach((node, depth) => {
    frames.push({ node, depth, left: 0, width: 1 });
  });
  place([focused], above.length, 0, 1, 0);
  return frames;
}

/** The path from the root to the node's parent. Stops at a cycle. */
export function ancestors(byId: ReadonlyMap<string, Node>, node: Node): Node[] {
  const above: Node[] = [];
  const seen = new Set([node.id]);
  for (let at = node.parent; at !== null && !seen.has(at); ) {
    const parent = byId.get(at);
    if (parent === undefined) break;
    seen.add(at);
    above.unshift(parent);
    at = parent.parent;
  }
  return above;
}

/** The frame at a place, given in shares of the width and rows. */
export function frameAt(frames: readonly Frame[], across: number, depth: number): Frame | undefined {
  return frames.find((one) => one.depth === depth && across >= one.left && across < one.left + one.width);
}

export type Direction = "up" | "down" | "left" | "right";

/** The frame that an arrow key selects from another. */
export function neighbour(
  frames: readonly Frame[],
  from: Frame | undefined,
  way: Direction,
): Frame | undefined {
  if (from === undefined) return frames[0];
  if (way === "up") return frameAt(frames, from.left + from.width / 2, from.depth - 1) ?? from;
  if (way === "down") {
    const below = frames.filter((one) => one.depth === from.depth + 1 && one.node.parent === from.node.id);
    return below[0] ?? from;
  }
  const row = frames.filter((one) => one.depth === from.depth);
  const at = row.indexOf(from);
  return row[way === "left" ? at - 1 : at + 1] ?? from;
}
