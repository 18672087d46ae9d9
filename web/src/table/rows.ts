/** Sorts and filters the rows of a table. */
import type { Row, Value } from "../source/source";
import { type Column, isMeasured, isNumeric } from "./columns";

export interface Sort {
  readonly column: string;
  readonly descending: boolean;
}

/** `total_ns:desc`, as the command line writes it. */
export function parseSort(text: string | undefined): Sort | null {
  if (!text) return null;
  const [column = "", direction = ""] = text.split(":", 2);
  return column === "" ? null : { column, descending: direction !== "asc" };
}

export function sortText(sort: Sort): string {
  return `${sort.column}:${sort.descending ? "desc" : "asc"}`;
}

/** The next sort when a column's head is pressed: numbers start with the largest, texts with a. */
export function nextSort(sort: Sort | null, column: Column): Sort | null {
  const first = isNumeric(column);
  if (sort?.column !== column.name) return { column: column.name, descending: first };
  return sort.descending === first ? { column: column.name, descending: !first } : null;
}

/** The indices of the rows in order. Unmeasured values come last; equal rows keep their order. */
export function sorted(rows: readonly Row[], places: readonly number[], sort: Sort | null): number[] {
  const order = [...places];
  if (sort === null) return order;
  const sign = sort.descending ? -1 : 1;
  return order.sort((a, b) => {
    const left = rows[a]?.[sort.column];
    const right = rows[b]?.[sort.column];
    if (!isMeasured(left) || !isMeasured(right)) return Number(isMeasured(right)) - Number(isMeasured(left));
    return sign * compared(left as Value, right as Value);
  });
}

function compared(left: Value, right: Value): number {
  if (typeof left === "string" && typeof right === "string") return left < right ? -1 : left > right ? 1 : 0;
  return Number(left) - Number(right);
}

/**
 * Parses a typed filter: words, `*glob*` or `/regex/`, ignoring case, or `"an exact text"`. Null if the
 * expression is invalid.
 */
export function matcher(text: string): ((value: string) => boolean) | null {
  const typed = text.trim();
  if (typed === "") return () => true;
  const all = /^"(.+)"$/s.exec(typed);
  if (all !== null) return (value) => value === all[1];
  const expression = /^\/(.+)\/$/.exec(typed);
  if (expression !== null) {
    try {
      const found = new RegExp(expression[1] ?? "", "i");
      return (value) => found.test(value);
    } catch {
      return null;
    }
  }
  if (/[*?]/.test(typed)) {
    const pattern = typed
      .replace(/[.+^${}()|[\]\\]/g, "\\$&")
      .replaceAll("*", ".*")
      .replaceAll("?", ".");
    const found = new RegExp(`^${pattern}$`, "is");
    return (value) => found.test(value);
  }
  const lower = typed.toLowerCase();
  return (value) => value.toLowerCase().includes(lower);
}

/** The indices of the rows with a matching text. */
export function filtered(
  rows: readonly Row[],
  columns: readonly Column[],
  matches: (value: string) => boolean,
): number[] {
  const texts = columns.filter((one) => one.type === "text").map((one) => one.name);
  return rows.flatMap((row, place) =>
    texts.length === 0 || texts.some((name) => matches(String(row[name] ?? ""))) ? [place] : [],
  );
}
