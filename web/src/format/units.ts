/**
 * Formats numbers exactly as the terminal does (`base/units.py`); a shared list of cases keeps both in
 * agreement.
 */
import type { Value } from "../source/source";
import { plain } from "./cut";

/** A missing value; it is never shown as 0. */
export const NOT_MEASURED = "–";

const TIME = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
] as const;
const BYTES = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
] as const;
const BANDWIDTHS = [
  [1e9, "GB/s"],
  [1e6, "MB/s"],
  [1e3, "kB/s"],
] as const;
const PREFIXES = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
] as const;

/** What a value's text depends on. */
export interface Kind {
  readonly unit: string;
  readonly type?: string;
  readonly moment?: boolean;
}

export function valueText(value: Value | undefined, kind: Kind): string {
  if (value === null || value === undefined) return NOT_MEASURED;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return plain(value);
  if (kind.moment) return `${fixed(value / 1e9, 6)} s`;
  return numberText(
    value,
    kind.unit,
    kind.type === undefined ? !Number.isInteger(value) : kind.type === "float",
  );
}

export function numberText(value: number, unit: string, measured = !Number.isInteger(value)): string {
  switch (unit) {
    case "ns":
      return timeText(value);
    case "bytes":
      return bytesText(value);
    case "bytes/s":
      return bandwidthText(value);
    case "flop":
      return flopsText(value, "FLOP");
    case "flop/s":
      return flopsText(value, "FLOP/s");
    case "ratio":
      return ratioText(value);
    case "count":
      return countText(value);
    default:
      return measured ? shortNumber(value) : String(value);
  }
}

export function timeText(ns: number): string {
  const found = TIME.find(([size]) => Math.abs(ns) >= size);
  return found === undefined ? `${fixed(ns, 0)} ns` : `${fourDigits(ns / found[0])} ${found[1]}`;
}

/** A round number on an axis, without trailing zeros. */
export function tickText(value: number, unit: string): string {
  return numberText(value, unit)
    .replace(/(\.\d*?)0+(?= |$)/, "$1")
    .replace(/\.(?= |$)/, "");
}

/** A text whose numbers stay on a line with their units, as in the terminal. */
export function held(text: string): string {
  return plain(text).replace(/(?<=\d) (?=(?:[nµm]?s|[KMGT]?i?B|[KMGT]?FLOP)\b|%)/g, "\u00a0");
}

export function bytesText(size: number): string {
  const found = BYTES.find(([unit]) => Math.abs(size) >= unit);
  return found === undefined ? `${fixed(size, 0)} B` : `${fourDigits(size / found[0])} ${found[1]}`;
}

function bandwidthText(rate: number): string {
  const found = rate === 0 ? BANDWIDTHS[0] : BANDWIDTHS.find(([size]) => Math.abs(rate) >= size / 10);
  const [size, unit] = found ?? [1, "B/s"];
  return `${fourDigits(rate / size)} ${unit}`;
}

function flopsText(count: number, unit: string): string {
  const found = PREFIXES.find(([size]) => Math.abs(count) >= size);
  return found === undefined
    ? `${fixed(count, 0)} ${unit}`
    : `${fourDigits(count / found[0])} ${found[1]}${unit}`;
}

export function ratioText(ratio: number): string {
  const percent = 100 * ratio;
  const magnitude = Math.abs(percent);
  if (magnitude === 0 || magnitude >= 0.05) return `${fixed(percent || 0, 1)} %`;
  return magnitude >= 0.005 ? `${fixed(percent, 2)} %` : "<0.01 %";
}

export function countText(count: number): string {
  if (!Number.isInteger(count)) return fourDigits(count);
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function fourDigits(value: number): string {
  return fixed(value, Math.max(0, 4 - String(Math.trunc(Math.abs(value))).length));
}

/** Formats as Python's `.4g`. */
function shortNumber(value: number): string {
  if (!Number.isFinite(value)) return NOT_MEASURED;
  const [digits = "0", power = "0"] = value.toExponential(3).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 4) return String(Number(value.toPrecision(4)));
  const sign = exponent < 0 ? "-" : "+";
  return `${Number(digits)}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** Formats as Python's `.nf`, which rounds ties to even; `toFixed` rounds them up. */
function fixed(value: number, digits: number): string {
  const exact = Math.abs(value) < 1e15 ? value.toFixed(Math.min(100, digits + 30)) : value.toFixed(0);
  const cut = exact.slice(0, exact.length - 30);
  const kept = cut.endsWith(".") ? cut.slice(0, -1) : cut;
  const tie = /^50*$/.test(exact.slice(exact.length - 30));
  return tie && exact.includes(".") && /[02468]$/.test(kept) ? kept : value.toFixed(digits);
}
