/** Chooses the columns that a table shows, and their headings. */
import type { Answer, AnswerColumn, Declaration, DeclaredColumn, Row, Value } from "../source/source";

export type Column = AnswerColumn & Partial<Omit<DeclaredColumn, keyof AnswerColumn>>;

const ENDINGS: Readonly<Record<string, string>> = { ns: "_ns", bytes: "_bytes", ratio: "_ratio" };
/** Tells columns apart that differ only in their unit. */
const APART: Readonly<Record<string, string>> = { ns: " time", bytes: " bytes", ratio: " share" };
/** Words that are spelled unlike in a column's name. */
const SPELLED: Readonly<Record<string, string>> = {
  api: "API",
  cpi: "CPI",
  cpu: "CPU",
  dataloader: "DataLoader",
  gpu: "GPU",
  sm: "SM",
};

/** The answer's columns with further details from their declaration. */
export function columnsOf(answer: Answer, declared: Declaration | undefined): Column[] {
  const known = new Map(declared?.columns.map((one) => [one.name, one]));
  return answer.columns.map((one) => ({ ...known.get(one.name), ...one }));
}

/** Names without units, which each value has beside it, and without underscores. */
export function heads(columns: readonly Column[]): string[] {
  const plain = columns.map((one) => {
    const ending = ENDINGS[one.unit] ?? "";
    const name = one.name.replace(/_bytes_per_s$/, "_bandwidth");
    return ending !== "" && name.endsWith(ending) ? name.slice(0, -ending.length) : name;
  });
  return columns.map((one, index) => {
    const head = plain[index] ?? one.name;
    const first = plain.findIndex((other, place) => other === head && columns[place]?.unit !== "ratio");
    // Alone, `step` is a step's number.
    const isShare = one.unit === "ratio" && head === "step";
    const apart = isShare || (first !== -1 && first !== index) ? (APART[one.unit] ?? "") : "";
    return `${head}${apart}`
      .split(/[_ ]/)
      .map((word) => SPELLED[word] ?? word)
      .join(" ");
  });
}

/** Columns shown by default: those declared so that have a value. */
export function shownAtFirst(columns: readonly Column[], rows: readonly Row[]): Set<string> {
  const shown = columns.filter((one, index) => {
    if (one.visible === false) return false;
    const values = rows.map((row) => row[one.name]);
    if (one.visible === "varying") return new Set(values).size > 1;
    return index === 0 || values.some(isMeasured);
  });
  return new Set(shown.map((one) => one.name));
}

export function isMeasured(value: Value | undefined): boolean {
  return value !== null && value !== undefined;
}

export function isNumeric(column: AnswerColumn): boolean {
  return column.type === "int" || column.type === "float";
}

/** The main column: the declared sum, else the first duration, else the first number with a unit. */
export function mainNumber(columns: readonly Column[], rows: readonly Row[]): Column | undefined {
  const numbers = columns.filter(
    (one) => isNumeric(one) && !one.moment && rows.some((row) => isMeasured(row[one.name])),
  );
  return (
    numbers.find((one) => one.sums) ??
    numbers.find((one) => one.unit === "ns") ??
    numbers.find((one) => one.unit !== "")
  );
}
