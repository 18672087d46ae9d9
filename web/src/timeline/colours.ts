/** Colours of the timeline: those of the step's parts, varied slightly by name. */
import { colourOf } from "../format/parts";

/** Custom properties of the style sheet, by kind of event. */
const OF_KINDS: Readonly<Record<string, string>> = {
  computation: "--kernel",
  communication: "--communication",
  copy: "--memcpy",
  fill: "--memset",
  sync: "--other",
  operator: "--cpu-exec",
  annotation: "--frame-part",
  runtime: "--runtime",
  python: "--frame",
  dataloader: "--dataloader",
  overhead: "--other",
  step: "--mark",
  module: "--frame-part",
  other: "--other",
};
/** How much of the background is mixed in, so that neighbours with different names differ. */
const TINTS = [0, 0.16, 0.3];

export interface Shade {
  readonly fill: string;
  readonly ink: string;
}

export interface Palette {
  readonly shades: Readonly<Record<string, readonly Shade[]>>;
  readonly card: string;
  readonly ground: string;
  readonly ink: string;
  readonly muted: string;
  readonly line: string;
  readonly accent: string;
  readonly mark: string;
}

export function palette(): Palette {
  const [card, ground, ink, muted, line, accent, mark] = [
    "--card",
    "--ground",
    "--ink",
    "--muted",
    "--line",
    "--accent",
    "--mark",
  ].map(colourOf) as [string, string, string, string, string, string, string];
  const shades = Object.fromEntries(
    Object.entries(OF_KINDS).map(([kind, property]) => {
      const own = colourOf(property);
      return [kind, TINTS.map((tint) => shade(mixed(own, card, tint)))];
    }),
  );
  return { shades, card, ground, ink, muted, line, accent, mark };
}

export function colourOfKind(kind: string): string {
  return OF_KINDS[kind] ?? "--other";
}

/** A number derived from a name. */
export function tintOf(name: string): number {
  let sum = 0;
  for (let place = 0; place < Math.min(name.length, 64); place++)
    sum = (sum * 31 + name.charCodeAt(place)) >>> 0;
  return sum % TINTS.length;
}

function shade(colour: readonly [number, number, number]): Shade {
  return {
    fill: `rgb(${colour.join(" ")})`,
    ink: contrast(colour, 0) >= contrast(colour, 1) ? "#000000" : "#ffffff",
  };
}

export function mixed(one: string, other: string, share: number): [number, number, number] {
  const [a, b] = [parts(one), parts(other)];
  return [0, 1, 2].map((at) => Math.round((a[at] ?? 0) * (1 - share) + (b[at] ?? 0) * share)) as [
    number,
    number,
    number,
  ];
}

/** Parses `#046070`, or `#fff` as in a minified style sheet. */
function parts(colour: string): number[] {
  const long = colour.length === 4 ? colour.replace(/[0-9a-f]/gi, "$&$&") : colour;
  return [1, 3, 5].map((at) => Number.parseInt(long.slice(at, at + 2), 16) || 0);
}

/** WCAG's contrast of a colour with black (0) or white (1). */
export function contrast(colour: readonly number[], other: 0 | 1): number {
  const [r = 0, g = 0, b = 0] = colour.map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  return other === 0 ? light / 0.05 : 1.05 / light;
}
