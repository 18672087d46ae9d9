/** Which rows of a tree are visible; parents come before their parts. */
export interface TreeRow {
  readonly id: string;
  readonly name: string;
  /** The complete name, if `name` is a part of it. */
  readonly full: string;
  readonly above: string | null;
  readonly depth: number;
}

const ROWS_AT_FIRST = 30;

/** How deep a tree is open at first: complete levels, while they fit on a screen. */
export function depthAtFirst(rows: readonly TreeRow[]): number {
  const counts: number[] = [];
  for (const row of rows) counts[row.depth] = (counts[row.depth] ?? 0) + 1;
  let sum = counts[0] ?? 0;
  for (let depth = 0; depth + 1 < counts.length; depth += 1) {
    sum += counts[depth + 1] ?? 0;
    if (sum > ROWS_AT_FIRST) return Math.max(depth, 1);
  }
  return Math.max(0, counts.length - 1);
}

/** The rows whose ancestors are all open. */
export function visibleRows<R extends TreeRow>(rows: readonly R[], isOpen: (row: R) => boolean): R[] {
  const open = new Set<string>();
  return rows.filter((row) => {
    const visible = row.above === null || open.has(row.above);
    if (visible && isOpen(row)) open.add(row.id);
    return visible;
  });
}

/** Some rows with their ancestors and descendants (`kept`), and the ancestors alone. */
export function ancestorsOf(
  rows: readonly TreeRow[],
  wanted: ReadonlySet<string>,
): { kept: ReadonlySet<string>; above: ReadonlySet<string> } {
  const above = new Set<string>();
  for (const row of [...rows].reverse()) {
    if (row.above !== null && (wanted.has(row.id) || above.has(row.id))) above.add(row.above);
  }
  const kept = new Set([...wanted, ...above]);
  const below = new Set(wanted);
  for (const row of rows) {
    if (row.above !== null && below.has(row.above)) {
      below.add(row.id);
      kept.add(row.id);
    }
  }
  return { kept, above };
}
