/** Exports rows of a table as text. */
import { valueText } from "../format/units";
import type { Row } from "../source/source";
import { type Column, isNumeric } from "./columns";

/** As `--csv` prints: values unformatted, empty if not measured. */
export function csvText(columns: readonly Column[], rows: readonly Row[]): string {
  const lines = [columns.map((one) => one.name), ...rows.map((row) => columns.map((one) => row[one.name]))];
  return `${lines.map((line) => line.map(csvCell).join(",")).join("\n")}\n`;
}

function csvCell(value: Row[string]): string {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A Markdown table with formatted values. */
export function markdownText(
  columns: readonly Column[],
  titles: readonly string[],
  rows: readonly Row[],
): string {
  const lines = [
    titles,
    columns.map((one) => (isNumeric(one) ? "---:" : "---")),
    ...rows.map((row) => columns.map((one) => valueText(row[one.name], one))),
  ];
  return `${lines.map((line) => `| ${line.map(markdownCell).join(" | ")} |`).join("\n")}\n`;
}

function markdownCell(text: string): string {
  return text.replace(/[\\|`*<>[\]]/g, "\\$&").replace(/\s+/g, " ");
}
