/** Memory over time as one curve per device. */
import type { Row } from "../source/source";

export const CATEGORIES = [
  "parameters",
  "gradients",
  "optimizer_state",
  "activations",
  "temporaries",
  "unknown",
] as const;
type Category = (typeof CATEGORIES)[number];
type Values = readonly (number | null)[];

export interface Curve {
  readonly name: string;
  readonly times: readonly number[];
  readonly allocated: Values;
  readonly reserved: Values;
  readonly parts: Readonly<Record<Category, Values>>;
  /** Whether a row of another answer is about the same memory. */
  readonly isOf: (row: Row) => boolean;
}

const WHOSE = ["rank", "span", "kind", "device"] as const;

/** The curves of an answer to `memory --by time`, the one with most memory first. */
export function curvesOf(rows: readonly Row[]): Curve[] {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const whose = JSON.stringify(WHOSE.map((one) => row[one] ?? null));
    const known = groups.get(whose);
    if (known === undefined) groups.set(whose, [row]);
    else known.push(row);
  }
  const varying = WHOSE.filter((one) => new Set(rows.map((row) => row[one] ?? null)).size > 1);
  const most = (curve: Curve) => Math.max(0, ...curve.allocated.map((value) => value ?? 0));
  const curves = [...groups.values()].map((own): Curve => {
    const [first] = own as [Row];
    const column = (name: string): Values =>
      own.map((row) => (typeof row[name] === "number" ? (row[name] as number) : null));
    return {
      name: nameOf(first, varying.includes("rank"), varying.includes("span")),
      times: own.map((row) => Number(row.time_ns)),
      allocated: column("allocated_bytes"),
      reserved: column("reserved_bytes"),
      parts: Object.fromEntries(CATEGORIES.map((one) => [one, column(`${one}_bytes`)])) as Record<
        Category,
        Values
      >,
      isOf: (row) => WHOSE.every((one) => (row[one] ?? null) === (first[one] ?? null)),
    };
  });
  return curves.sort((a, b) => most(b) - most(a));
}

function nameOf(row: Row, withRank: boolean, withSpan: boolean): string {
  const device = row.device === null || row.device === undefined ? "the host" : `${row.kind} ${row.device}`;
  const rank = withRank ? `, rank ${row.rank}` : "";
  return `${device}${rank}${withSpan ? `, recording ${Number(row.span) + 1}` : ""}`;
}
