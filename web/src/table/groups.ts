/** Groups rows of a table by the values of a column, and splits them into pages. */
import type { Row } from "../source/source";
import { type Column, isNumeric } from "./columns";

export interface Group {
  readonly value: Row[string];
  /** Indices of its rows in the answer, in the table's order. */
  readonly places: readonly number[];
  /** The share of its rows in the total, if the answer has shares. */
  readonly share: number | null;
}

/** Columns whose values say what a row is about, and repeat. */
export function groupable(columns: readonly Column[], rows: readonly Row[]): Column[] {
  return columns.filter((column) => {
    if (isNumeric(column) && column.unit !== "") return false;
    if (column.type === "float" || column.moment) return false;
    const values = new Set(rows.map((row) => row[column.name]));
    return values.size > 1 && values.size < rows.length;
  });
}

/** Groups in the order of their first rows. */
export function grouped(
  rows: readonly Row[],
  places: readonly number[],
  by: string,
  share: string | undefined,
): Group[] {
  const groups = new Map<Row[string], number[]>();
  for (const place of places) {
    const value = rows[place]?.[by] ?? null;
    const known = groups.get(value);
    if (known === undefined) groups.set(value, [place]);
    else known.push(place);
  }
  return [...groups].map(([value, own]) => ({ value, places: own, share: shareOf(rows, own, share) }));
}

/** The sum of shares of one total; null without any. */
function shareOf(rows: readonly Row[], places: readonly number[], share: string | undefined): number | null {
  if (share === undefined) return null;
  const shares = places.flatMap((place) => {
    const value = rows[place]?.[share];
    return typeof value === "number" ? [value] : [];
  });
  return shares.length === 0 ? null : shares.reduce((sum, one) => sum + one, 0);
}

/** The column with a row's share of the total, if rows are parts that add up. */
export function shareColumn(columns: readonly Column[]): string | undefined {
  return columns.find((one) => one.unit === "ratio" && /^(device_)?share_ratio$/.test(one.name))?.name;
}
