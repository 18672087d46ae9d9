/** Chooses an answer's chart from its declaration alone. */
import type { DeclaredChart, Row } from "../source/source";
import { type Column, isMeasured, isNumeric, mainNumber } from "./columns";

export type Chart =
  | {
      readonly kind: "bars";
      readonly name: Column;
      /** Further columns, if the first text does not tell all rows apart. */
      readonly beside: readonly Column[];
      readonly value: Column;
      readonly share: Column | undefined;
    }
  | {
      readonly kind: "lines";
      readonly time: Column;
      readonly values: readonly Column[];
      readonly by: readonly Column[];
    }
  | { readonly kind: "map" }
  | { readonly kind: "none" };

const MOST_LINES = 6;
/** Tells rows of the same time or name apart. For times this excludes `span`, which gets separate charts. */
const TOLD_APART = new Set(["rank", "device", "stream", "track", "metric"]);
const FEWEST_POINTS = 3;

/**
 * Values over time if rows are moments; else the largest rows by the answer's main column, named by its
 * first text.
 */
export function chartOf(columns: readonly Column[], rows: readonly Row[], declared: DeclaredChart): Chart {
  if (rows.length === 0 || declared === "none") return { kind: "none" };
  if (declared === "map") return { kind: columns.some((one) => one.name === "value_ns") ? "map" : "none" };
  const lines = overTime(columns, rows);
  if (lines !== null) return lines;
  const name = columns.find((one) => one.type === "text" && rows.some((row) => isMeasured(row[one.name])));
  const value = mainNumber(columns, rows);
  if (name === undefined || value === undefined || rows.length < 2) return { kind: "none" };
  const different = new Set(rows.map((row) => row[name.name]));
  if (different.size < rows.length / 2) return { kind: "none" };
  const [text] = columns.filter((one) => one.type === "text" && one !== name && one.visible !== false);
  const others = columns.filter(
    (one) => (TOLD_APART.has(one.name) || one.name === "span") && one.type === "int",
  );
  const beside: Column[] = [];
  let apart = different.size;
  for (const one of text === undefined ? others : [text, ...others]) {
    const keys = [name, ...beside, one].map((column) => column.name);
    const told = new Set(rows.map((row) => JSON.stringify(keys.map((key) => row[key])))).size;
    if (told > apart) beside.push(one);
    apart = Math.max(apart, told);
  }
  const shares = ["share_ratio", `${value.name.split("_")[0]}_share_ratio`];
  return { kind: "bars", name, beside, value, share: columns.find((one) => shares.includes(one.name)) };
}

function overTime(columns: readonly Column[], rows: readonly Row[]): Chart | null {
  const time = columns.find((one) => one.moment);
  if (time === undefined || rows.length < FEWEST_POINTS) return null;
  const named = columns.some((one) => one.type === "text" && one.visible !== false);
  if (named) return null; // rows are named events, which a line should not connect
  const measured = columns.filter(
    (one) => isNumeric(one) && !one.moment && rows.some((row) => isMeasured(row[one.name])),
  );
  // Ratios of time windows can be compared whatever the windows' length.
  const unit = measured.some((one) => one.unit === "ratio") ? "ratio" : mainNumber(columns, rows)?.unit;
  const values = measured.filter((one) => one.unit === unit && one.unit !== "");
  const by = columns.filter((one) => TOLD_APART.has(one.name));
  return values.length === 0 ? null : { kind: "lines", time, values: values.slice(0, MOST_LINES), by };
}
